package mcp_test

// badFiles are files that say nothing that can be meant.
func badFiles() []string {
	return []string{
		``, ` `, `{`, `[]`, `null`, `7`, `{}`, `{"mcpServers":{}} x`, `{"mcpServers":{}}{}`, `{"mcpServers":[]}`,
		`{"mcpServers":null}`, "\xef\xbb\xbf{\"mcpServers\":{}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"\xff\"}}}", `{"mcpservers":{}}`, `{"mcpServers":{},"other":1}`,
		`{"mcpServers":{},"mcpServers":{}}`, "{\"mcpServers\":{} // none\n}",
		`{"mcpServers":{"a":{}}}`, `{"mcpServers":{"a":7}}`, `{"mcpServers":{"a":{"command":"x","url":"http://x"}}}`,
		`{"mcpServers":{"a":{"command":""}}}`,
		`{"mcpServers":{"a":{"command":7}}}`, `{"mcpServers":{"a":{"command":"x","Command":"y"}}}`,
		`{"mcpServers":{"a":{"command":"x","comand":"y"}}}`,
		`{"mcpServers":{"a":{"command":"x","args":"y"}}}`, `{"mcpServers":{"a":{"command":"x","args":[7]}}}`,
		`{"mcpServers":{"a":{"command":"x","env":{"A":7}}}}`,
		`{"mcpServers":{"a":{"command":"x","env":{"A=B":"7"}}}}`, `{"mcpServers":{"a":{"command":"x","headers":{}}}}`,
		`{"mcpServers":{"a":{"command":"x","type":"http"}}}`,
		`{"mcpServers":{"a":{"url":"x"}}}`, `{"mcpServers":{"a":{"url":"ftp://x"}}}`,
		`{"mcpServers":{"a":{"url":"http://u:p@x"}}}`, `{"mcpServers":{"a":{"url":"http://x","type":"stdio"}}}`,
		`{"mcpServers":{"a":{"url":"http://x","args":[]}}}`,
		`{"mcpServers":{"a":{"url":"http://x","headers":{"A b":"c"}}}}`,
		`{"mcpServers":{"a":{"url":"http://x","headers":{"A":"b\nc"}}}}`,
		`{"mcpServers":{"a b":{"command":"x"}}}`, `{"mcpServers":{"a__b":{"command":"x"}}}`,
		`{"mcpServers":{"_a":{"command":"x"}}}`, `{"mcpServers":{"":{"command":"x"}}}`,
		`{"mcpServers":{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":{"command":"x"}}}`,
		`{"mcpServers":{"a":{"command":"${NOT_SET_ANYWHERE}"}}}`,
		`{"mcpServers":{"a":{"command":"${"}}}`, `{"mcpServers":{"a":{"command":"${A B}"}}}`,
		`{"mcpServers":{"a":{"command":"x","timeout":5}}}`, `{"mcpServers":{"a":{"command":"x","timeout":"5"}}}`,
		`{"mcpServers":{"a":{"command":"x","timeout":"1m","maxTime":"1s"}}}`,
		`{"mcpServers":{"a":{"command":"x","maxCalls":0}}}`, `{"mcpServers":{"a":{"command":"x","pinTools":"yes"}}}`,
		`{"mcpServers":{"a":{"command":"x","allowTools":["a*b"]}}}`,
		`{"mcpServers":{"a":{"command":"x","allowTools":[""]}}}`,
	}
}
