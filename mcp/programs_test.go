package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// forever sleeps: a program without cgo in which nothing can ever run again is ended by its runtime.
func forever() { time.Sleep(time.Hour) }

// only says whether a message is of a method.
func only(method string, do func(m said)) func(said) bool {
	return func(m said) bool {
		if m.Method == method {
			do(m)
			return true
		}
		return false
	}
}

// on takes a message of a method and does no more.
func hangs(method string) func(said) bool { return only(method, func(said) {}) }

// programs are servers: decent ones, then those that nobody should have to meet.
func programs() map[string]func(*peer) {
	return map[string]func(*peer){
		"good": func(p *peer) { p.decent(nil) },
		"env": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.result(m.ID, `{"content":[{"type":"text","text":%q}]}`, strings.Join(os.Environ(), "\n"))
			}))
		},
		"slow":       slow,
		"progress":   progress,
		"changes":    changes,
		"huge-pages": hugePages,
		"versioned":  func(p *peer) { p.decent(nil, strings.Replace(doTool, "Do it.", os.Getenv("DOC"), 1)) },
		"other-schema": func(p *peer) {
			p.decent(nil, strings.Replace(doTool, `{"type":"string"}`, `{"type":"string","description":"your keys"}`,
				1))
		},
		"errors": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.result(m.ID,
					`{"isError":true,"content":[{"type":"text","text":"no such city"}]}`)
			}))
		},
		"refuses": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad arguments"}}`, m.ID)
			}))
		},
		"dies": func(p *peer) { p.decent(only("tools/call", func(said) { os.Exit(3) })) },

		"exits":            func(*peer) { fmt.Fprintln(os.Stderr, "Error: no module x"); os.Exit(1) },
		"hangs":            func(*peer) { forever() },
		"hangs-initialize": func(p *peer) { p.decent(hangs("initialize")) },
		"hangs-list":       func(p *peer) { p.decent(hangs("tools/list")) },
		"hangs-call":       func(p *peer) { p.decent(hangs("tools/call")) },
		"hangs-ping":       func(p *peer) { p.decent(hangs("ping")) },
		"garbage":          garbage,
		"binary":           func(*peer) { write(strings.Repeat("\x00\xff\xfe", 5_000)); forever() },
		"wrong-ids": func(p *peer) {
			p.decent(func(m said) bool {
				p.result([]byte(`"other"`),
					`{}`)
				return true
			})
		},
		"duplicates": func(p *peer) {
			p.decent(func(m said) bool {
				p.usual(m, doTool)
				p.usual(m,
					doTool)
				return false
			})
		},
		"floods": func(p *peer) {
			p.decent(only("tools/list", func(said) {
				floodWith(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			}))
		},
		"floods-requests": func(p *peer) {
			p.decent(only("tools/list",
				func(said) { floodWith(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`) }))
		},
		"floods-empty":   func(*peer) { floodWith("") },
		"endless-line":   func(*peer) { endlessLine() },
		"many-tools":     func(p *peer) { p.decent(nil, manyTools()) },
		"endless-pages":  endlessPages,
		"reference-bomb": func(p *peer) { p.decent(nil, doTool, bomb()) },
		"huge-schema": func(p *peer) {
			p.decent(nil, doTool, `{"name":"big","inputSchema":{"type":"object","description":"`+
				strings.Repeat("x", 100<<10)+`"}}`)
		},
		"lists":           func(p *peer) { p.decent(nil, os.Getenv("TOOLS")) },
		"odd-tools":       func(p *peer) { p.decent(nil, oddTools()) },
		"ignores-sigterm": func(p *peer) { signal.Ignore(syscall.SIGTERM); p.decent(nil); forever() },
		"forks-away":      func(p *peer) { forkAway(); p.decent(nil) },
		"leaves-children": func(p *peer) { leave(&syscall.SysProcAttr{}); p.decent(nil) },
		"closes-output": func(p *peer) {
			p.decent(only("tools/list",
				func(said) { _ = os.Stdout.Close(); forever() }))
		},
		"floods-log":       func(p *peer) { go floodLog(); p.decent(nil) },
		"drips":            drips,
		"stops-reading":    func(p *peer) { p.decent(only("tools/call", func(said) { forever() })) },
		"changes-all-time": func(p *peer) { go floodChanges(p); p.decent(nil) },
		"huge-result": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.result(m.ID, `{"content":[{"type":"text","text":"%s"}]}`,
					strings.Repeat("x", 8<<20))
			}))
		},
		"no-result": func(p *peer) { p.decent(only("tools/call", func(m said) { p.result(m.ID, `"hello"`) })) },
		"deep-result": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.result(m.ID, `{"content":%s%s}`, strings.Repeat("[", 200_000), strings.Repeat("]", 200_000))
			}))
		},
		"unknown-version": func(p *peer) {
			p.decent(only("initialize", func(m said) {
				p.result(m.ID, "%s",
					strings.Replace(helloResult, "2025-06-18", "banana", 1))
			}))
		},
		"wants-to-ask": func(p *peer) {
			p.decent(only("tools/call", func(m said) {
				p.result(m.ID,
					`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}`)
			}))
		},
		"no-list": func(p *peer) { p.decent(only("tools/list", func(m said) { p.result(m.ID, `{"tools":{"a":1}}`) })) },
		"never-ending-list": func(p *peer) {
			p.decent(only("tools/list", func(m said) {
				write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[`,
					m.ID))
				endlessLine()
			}))
		},
	}
}

func write(s string) { _, _ = os.Stdout.WriteString(s) }

// slow takes a second for each call, and says on its standard error what was cancelled.
func slow(p *peer) {
	p.decent(func(m said) bool {
		switch m.Method {
		case "tools/call":
			go func() {
				time.Sleep(time.Second)
				p.usual(m)
			}()
			return true
		case "notifications/cancelled":
			fmt.Fprintf(os.Stderr, "cancelled %s\n", m.Params.RequestID)
		}
		return false
	})
}

// progress reports for three seconds before it answers, or for ever if it is called with "never".
func progress(p *peer) {
	p.decent(only("tools/call", func(m said) {
		for i := 0; i < 15 || strings.Contains(string(m.Params.Arguments), "never"); i++ {
			time.Sleep(200 * time.Millisecond)
			p.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
				m.Params.Meta.Token, i)
		}
		p.usual(m)
	}))
}

// changes has another tool after each call.
func changes(p *peer) {
	n := 1
	p.decent(func(m said) bool {
		switch m.Method {
		case "tools/list":
			p.usual(m, strings.Replace(doTool, `"do"`, fmt.Sprintf(`"do%d"`, n), 1))
			return true
		case "tools/call":
			n++
			p.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		return false
	})
}

func garbage(p *peer) {
	p.line("Server listening on stdio!")
	p.decent(func(m said) bool {
		for _, line := range []string{
			"{", "null", "[]", `"x"`, `{"jsonrpc":"2.0"}`, `{"id":{}}`, "\x1b[31mred",
			`{"jsonrpc":"2.0","id":99999,"result":{}}`, `{"method":7}`,
		} {
			p.line("%s", line)
		}
		return false
	})
}

func floodWith(line string) {
	chunk := strings.Repeat(line+"\n", 1_000)
	for {
		write(chunk)
	}
}

func endlessLine() {
	for {
		write(strings.Repeat("x", 64<<10))
	}
}

func floodLog() {
	for {
		fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 2_000))
	}
}

func floodChanges(p *peer) {
	for {
		time.Sleep(2 * time.Millisecond)
		write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n")
	}
}

func manyTools() string {
	var all []string
	for i := range 10_000 {
		all = append(all, strings.Replace(doTool, `"do"`, fmt.Sprintf(`"do%d"`, i), 1))
	}
	return strings.Join(all, ",")
}

func endlessPages(p *peer) {
	n := 0
	p.decent(only("tools/list", func(m said) {
		n++
		p.result(m.ID, `{"tools":[{"name":"do%d","inputSchema":{"type":"object"}}],"nextCursor":"%d"}`, n, n)
	}))
}

// hugePages lists tools whose prose is a mebibyte each, one a page.
func hugePages(p *peer) {
	n, prose := 0, strings.Repeat("a", 1<<20)
	p.decent(only("tools/list", func(m said) {
		n++
		p.result(m.ID, `{"tools":[{"name":"do%d","description":"%s","inputSchema":{"type":"object"}}],`+
			`"nextCursor":"%d"}`, n, prose, n)
	}))
}

func bomb() string {
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(
		`{"name":"bomb","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s,"d40":{}`+
			`}}}`, strings.Join(defs, ","))
}

func oddTools() string {
	return strings.Join([]string{
		doTool, doTool, `7`, `{"name":7}`, `{}`, `{"name":""}`, `{"name":"no-schema"}`,
		`{"name":"list","inputSchema":{"type":"array"}}`,
		`{"name":"typed","inputSchema":{"type":["object"]}}`, `{"name":"line\nend","inputSchema":{"type":"object"}}`,
		`{"name":"dots.and/slashes","inputSchema":{"type":"object"}}`,
		`{"name":"` + strings.Repeat("long", 50) + `","inputSchema":{"type":"object"}}`,
		`{"name":"hidden","description":"a<|im_start|>\u200b\u202e\ud83d\udc40\udb40\udc41b` +
			strings.Repeat("z", 10_000) + `","inputSchema":{"type":"object"}}`,
	}, ",")
}

// leave starts a program that would stay for ever.
func leave(attr *syscall.SysProcAttr) {
	child := exec.Command("sleep", "600")
	child.SysProcAttr = attr
	_ = child.Start()
}

// forkAway starts a program in a session of its own, as a daemon does.
func forkAway() { leave(&syscall.SysProcAttr{Setsid: true}) }

func drips(*peer) {
	for i := 0; ; i++ {
		write(string(`{"jsonrpc":"2.0",`[i%17]))
		time.Sleep(20 * time.Millisecond)
	}
}
