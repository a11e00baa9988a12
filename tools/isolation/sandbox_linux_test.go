//go:build linux && (amd64 || arm64)

package isolation

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

// sandbox runs a line of shell in a sandbox.
func sandbox(t *testing.T, r *Runner, c Sandboxed, line string) Ended {
	t.Helper()
	c.Key, c.Argv = chat, []string{"sh", "-c", line}
	if c.Timeout == 0 {
		c.Timeout = 60 * time.Second
	}
	end, err := r.RunSandboxed(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return end
}

func newSandbox(t *testing.T, o Options) *Runner {
	t.Helper()
	o.Homes = filepath.Join(t.TempDir(), "programs")
	r := newRunner(t, Room, o)
	if err := r.CanSandbox(t.Context()); err != nil {
		if namespaced() {
			t.Fatalf("another program can make namespaces here: %v", err)
		}
		needs.Missing(t, "namespaces", err)
	}
	return r
}

// namespaced says whether this machine gives what a sandbox needs, as another program finds it. So a fault of the
// sandbox itself is no reason to skip its tests.
var namespaced = sync.OnceValue(func() bool {
	return exec.Command("unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "--mount-proc",
		"true").Run() == nil
})

func TestInASandboxAnyProgramRuns(t *testing.T) {
	r := newSandbox(t, Options{Env: []string{"HOME_OF_TESTS"}})
	t.Setenv("HOME_OF_TESTS", "here")
	for line, want := range map[string]string{
		"pwd; echo $HOME $TMPDIR $HOME_OF_TESTS":                 "/work\n/sandbox /tmp here\n",
		"printf '#!/bin/sh\necho a script' >s; chmod +x s; ./s":  "a script\n",
		"for d in . ~ /tmp; do cp /bin/echo $d/e; $d/e $d; done": ".\n/sandbox\n/tmp\n",
		"cat /proc/1/comm && ls /dev/fd | head -n 1":             "sh\n0\n",
		"echo a | cat - /etc/hosts | head -n 2":                  "a\n127.0.0.1 localhost\n",
		"(sleep 100 &) ; echo over":                              "over\n",
	} {
		if end := sandbox(t, r, Sandboxed{}, line); end.Output != want || end.Exit != 0 {
			t.Errorf("%s: %+v, want %q", line, end, want)
		}
	}
	for _, c := range []struct {
		argv []string
		exit int
		says string
	}{
		{[]string{"no-such-program"}, 127, "there is no such program in the sandbox"},
		{[]string{"./no"}, 127, "there is no such program"},
		{[]string{"/etc/passwd"}, 126, "cannot be executed"},
		{[]string{"./text"}, 126, "a script begins with #!"},
		{[]string{"/work"}, 126, "cannot be executed"},
	} {
		dir := filepath.Join(r.path, Directory(chat))
		must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("echo hi\n"), 0o700))
		end, err := r.RunSandboxed(t.Context(), Sandboxed{Key: chat, Argv: c.argv, Timeout: 20 * time.Second})
		if err != nil || end.Exit != c.exit || !strings.Contains(end.Output, c.says) {
			t.Errorf("%q: %+v, %v", c.argv, end, err)
		}
	}
}

// TestASandboxKeepsItsHomeAndItsFilesAndNothingElse: the home is the chat's own, and the temporary directory is the
// program's.
func TestASandboxKeepsItsHomeAndItsFilesAndNothingElse(t *testing.T) {
	r := newSandbox(t, Options{})
	sandbox(t, r, Sandboxed{}, "echo a >~/kept; echo b >kept; echo c >/tmp/lost")
	if end := sandbox(t, r, Sandboxed{}, "cat ~/kept kept; ls /tmp"); end.Output != "a\nb\n" {
		t.Errorf("%+v", end)
	}
	other := chat
	other.Chat = "other"
	end, err := r.RunSandboxed(t.Context(), Sandboxed{
		Key: other, Argv: []string{"sh", "-c", "ls ~ ."}, Timeout: 20 * time.Second,
	})
	if err != nil || strings.Contains(end.Output, "kept") {
		t.Errorf("another chat sees %+v, %v", end, err)
	}
	homes, err := filepath.Glob(filepath.Join(r.opts.Homes, "*"))
	if err != nil || len(homes) != 2 {
		t.Fatalf("%q, %v", homes, err)
	}
	for _, home := range homes {
		if !strings.Contains(home, "other") {
			must(t, os.Truncate(filepath.Join(home, "kept"), maxHomeBytes+1))
		}
	}
	if end := sandbox(t, r, Sandboxed{}, "ls ~; cat kept"); end.Output != "b\n" {
		t.Errorf("a home over its limit: %+v", end)
	}
}

func TestDirectoriesOfTheOwnerAreInASandboxUnderTheirNames(t *testing.T) {
	r := newSandbox(t, Options{})
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	openDirectories(t, base, 0o755)
	write, read := filepath.Join(base, "write"), filepath.Join(base, "read")
	for _, dir := range []string{write, read, filepath.Join(write, "sub"), filepath.Join(base, "closed")} {
		must(t, os.Mkdir(dir, 0o777))
		must(t, os.Chmod(dir, 0o777))
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o666))
		must(t, os.Chmod(filepath.Join(dir, "f"), 0o666))
	}
	mounts := []Mount{{Path: read}, {Path: write, Write: true}}
	for _, c := range []struct {
		dir, line string
		exit      int
	}{
		{"", "cat " + read + "/f", 0},
		{write, "cat f && echo new >g && test $(pwd) = " + write, 0},
		{filepath.Join(write, "sub"), "cat f", 0},
		{read, "echo new >f", 2},
		{read, "echo new >g", 2},
		{read, "chmod 700 f", 1},
		{read, "mv f g", 1},
		{write, "cp /bin/true t && ./t && rm t", 0},
		{"", "cat " + filepath.Join(base, "closed", "f"), 1},
		{write, "cat ../closed/f", 1},
		{write, "ln -s ../closed l; cat l/f", 1},
	} {
		if end := sandbox(t, r, Sandboxed{Mounts: mounts, Dir: c.dir}, c.line); end.Exit != c.exit {
			t.Errorf("in %q %s: %+v", c.dir, c.line, end)
		}
	}
	text, err := os.ReadFile(filepath.Join(write, "g"))
	if err != nil || string(text) != "new\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, dir := range []string{
		filepath.Join(base, "closed"), "/", "/etc", "..", "../..", write + "/..", write + "2", "/proc/1/root",
	} {
		_, err := r.RunSandboxed(t.Context(), Sandboxed{
			Key: chat, Argv: []string{"true"}, Timeout: time.Second, Mounts: mounts, Dir: dir,
		})
		if !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("a program begins in %q: %v", dir, err)
		}
	}
	for _, path := range []string{
		"/", "/usr", "/usr/src", "/etc/x", "/proc/1", "/tmp", "/work", "/work/a", "/sandbox", "/dev", "a", "/a/../b",
	} {
		if err := CheckMounts([]Mount{{Path: path}}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// lookUps answers each question for an address with loopback, where servers stand in for domains.
func lookUps() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close() //nolint:errcheck // the end of a question
			size, buf := make([]byte, 2), make([]byte, 4096)
			for {
				if _, err := io.ReadFull(ours, size); err != nil {
					return
				}
				n := int(size[0])<<8 | int(size[1])
				var m dnsmessage.Message
				if _, err := io.ReadFull(ours, buf[:n]); err != nil || m.Unpack(buf[:n]) != nil {
					return
				}
				m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
				if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
					m.Answers = []dnsmessage.Resource{{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
						Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
					}}
				}
				packed, err := m.Pack()
				if err != nil {
					return
				}
				if _, err := ours.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))},
					packed...)); err != nil {
					return
				}
			}
		}()
		return theirs, nil
	}}
}

// internet is a server that stands in for example.com, and the way there.
type internet struct {
	*httptest.Server
	url    string
	visits egress.Visits
	serve  func(net.Listener)
}

// newInternet serves the files of a directory as https://example.com, and puts the certificate into the chat's files.
func newInternet(t *testing.T, r *Runner, files http.Handler) *internet {
	t.Helper()
	s := &internet{Server: httptest.NewUnstartedServer(files)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	s.url = fmt.Sprintf("https://example.com:%d", port)
	p, err := egress.NewProxy(egress.Targets{
		Domains: []string{"example.com"}, Ports: []int{port},
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, egress.Options{Resolver: lookUps()})
	must(t, err)
	s.serve = func(l net.Listener) { p.Serve(l, &s.visits) }
	dir := filepath.Join(r.path, Directory(chat))
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "ca.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return s
}

func TestInASandboxCurlReachesTheListedDomains(t *testing.T) {
	t.Parallel()
	needs.Program(t, "curl")
	r := newSandbox(t, Options{})
	s := newInternet(t, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	c := Sandboxed{Network: s.serve}
	if end := sandbox(t, r, c, "curl -sS --cacert ca.pem "+s.url+"/"); end.Output != "hello" {
		t.Errorf("%+v", end)
	}
	if end := sandbox(t, r, Sandboxed{}, "curl -sS --cacert ca.pem "+s.url+"/"); end.Exit == 0 {
		t.Errorf("without a network: %+v", end)
	}
	for _, line := range []string{
		"curl -sS --cacert ca.pem --noproxy '*' " + s.url,
		"curl -sS --cacert ca.pem -x '' --resolve '*:*:127.0.0.1' " + s.url,
		"curl -sS -k https://127.0.0.1:" + port(s.Listener), "curl -sS -k https://localhost:" + port(s.Listener),
		"curl -sS -k -x http://127.0.0.1:3128 https://127.0.0.1:" + port(s.Listener),
		"curl -sS -k https://other.test:" + port(s.Listener), "curl -fsS http://169.254.169.254/",
		"curl -sS telnet://example.com:" + port(s.Listener) + " --noproxy '*' </dev/null",
		"HTTPS_PROXY= https_proxy= ALL_PROXY= all_proxy= curl -sS --cacert ca.pem " + s.url,
		"getent ahosts example.com", "getent ahosts other.test",
	} {
		if end := sandbox(t, r, c, line); end.Exit == 0 {
			t.Errorf("%s: %+v", line, end)
		}
	}
	if said := s.visits.String(); !strings.Contains(said, "other.test") || !strings.Contains(said, "refused") {
		t.Errorf("the visits: %q", said)
	}
}

func port(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }

func TestInASandboxGitClones(t *testing.T) {
	long.Only(t, "TestInASandboxCurlReachesTheListedDomains")
	t.Parallel()
	needs.Program(t, "git")
	r := newSandbox(t, Options{})
	served := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", served + "/src"},
		{
			"-C", served + "/src", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m",
			"one",
		},
		{"clone", "-q", "--bare", served + "/src", served + "/it.git"},
		{"-C", served + "/it.git", "update-server-info"},
	} {
		if text, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, text)
		}
	}
	s := newInternet(t, r, http.FileServer(http.Dir(served)))
	end := sandbox(t, r, Sandboxed{Network: s.serve},
		"GIT_SSL_CAINFO=/work/ca.pem git clone -q "+s.url+"/it.git && git -C it log --format=%s")
	if end.Output != "one\n" {
		t.Errorf("%+v; %s", end, &s.visits)
	}
}

func TestInASandboxGoBuildsWithModules(t *testing.T) {
	long.Only(t, "TestInASandboxAnyProgramRuns")
	t.Parallel()
	needs.Program(t, "go")
	r := newSandbox(t, Options{})
	if end := sandbox(t, r, Sandboxed{}, "go version"); end.Exit != 0 {
		needs.Missing(t, "go", "a sandbox does not see it: ", end)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range map[string]string{
		"go.mod": "module example.com/greet\n", "greet.go": "package greet\n\nfunc Hi() { println(\"hi\") }\n",
	} {
		w, err := z.Create("example.com/greet@v1.0.0/" + name)
		must(t, err)
		_, err = io.WriteString(w, text)
		must(t, err)
	}
	must(t, z.Close())
	s := newInternet(t, r, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/example.com/greet/@v/v1.0.0.info":
			fmt.Fprint(w, `{"Version":"v1.0.0"}`)
		case "/example.com/greet/@v/v1.0.0.mod":
			fmt.Fprint(w, "module example.com/greet\n")
		case "/example.com/greet/@v/v1.0.0.zip":
			_, _ = w.Write(archive.Bytes())
		default:
			http.NotFound(w, q)
		}
	}))
	dir := filepath.Join(r.path, Directory(chat))
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n\nrequire example.com/greet v1.0.0\n"), 0o600))
	// A package that is no program is compiled without Go's own packages, which takes half a minute less.
	must(t, os.WriteFile(filepath.Join(dir, "m.go"),
		[]byte("package m\n\nimport \"example.com/greet\"\n\nfunc M() { greet.Hi() }\n"), 0o600))
	end := sandbox(t, r, Sandboxed{Network: s.serve, Timeout: 5 * time.Minute},
		"export SSL_CERT_FILE=/work/ca.pem GOPROXY="+s.url+" GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local "+
			"CGO_ENABLED=0; go build -o m.a . && go list -m all && head -c 7 m.a")
	if end.Exit != 0 || !strings.HasSuffix(end.Output, "m\nexample.com/greet v1.0.0\n!<arch>") {
		t.Errorf("%+v; %s", end, &s.visits)
	}
}

func TestInASandboxNpmInstalls(t *testing.T) {
	long.Only(t, "TestInASandboxAnyProgramRuns")
	t.Parallel()
	needs.Program(t, "npm")
	r := newSandbox(t, Options{})
	if end := sandbox(t, r, Sandboxed{}, "npm --version"); end.Exit != 0 {
		needs.Missing(t, "npm", "a sandbox does not see it: ", end)
	}
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	for name, text := range map[string]string{
		"package.json": `{"name":"greet","version":"1.0.0","main":"i.js"}`, "i.js": `console.log("hi")`,
	} {
		must(t, files.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := io.WriteString(files, text)
		must(t, err)
	}
	must(t, errors.Join(files.Close(), compressed.Close()))
	s := newInternet(t, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive.Bytes())
	}))
	sum := sha512.Sum512(archive.Bytes())
	dir := filepath.Join(r.path, Directory(chat))
	must(t, os.WriteFile(filepath.Join(dir, "package.json"),
		[]byte(`{"name":"m","version":"1.0.0","dependencies":{"greet":"1.0.0"}}`), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "package-lock.json"), fmt.Appendf(nil, `{"name":"m","version":"1.0.0",
		"lockfileVersion":3,"packages":{"":{"name":"m","version":"1.0.0","dependencies":{"greet":"1.0.0"}},
		"node_modules/greet":{"version":"1.0.0","resolved":"%s/greet/-/greet-1.0.0.tgz","integrity":"sha512-%s"}}}`,
		s.url, base64.StdEncoding.EncodeToString(sum[:])), 0o600))
	end := sandbox(t, r, Sandboxed{Network: s.serve, Timeout: 2 * time.Minute},
		"npm ci --no-audit --no-fund --fetch-retries 0 --strict-ssl=false --registry "+s.url+" >log 2>&1 && "+
			"node -e 'require(\"greet\")' || cat log")
	if end.Output != "hi\n" {
		t.Errorf("%+v; %s", end, &s.visits)
	}
}
