package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// anyPort has the first start choose where it listens.
const anyPort = "127.0.0.1:0"

// pause is between two looks at a file.
const pause = time.Millisecond

// program is the corebot whose promises are looked at: its home, and the process that serves.
type program struct {
	binary, dir string
	addr        string   // of the webhook, from the first start on
	model       []string // settings of the model, as variables
	ended       context.CancelCauseFunc
	serving     *process
	kills       int
}

// process is one `corebot serve`.
type process struct {
	cmd   *exec.Cmd
	meant atomic.Bool   // it is ended by the demonstration
	gone  chan struct{} // closed when it has ended
}

func (p *program) home() string { return filepath.Join(p.dir, "home") }

func (p *program) logFile() string { return filepath.Join(p.dir, "serve.log") }

// command prepares a run of the program on the home. The variables of the caller do not count.
func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + p.dir, "COREBOT_HOME=" + p.home(),
		"COREBOT_WEBHOOK_ADDR=" + p.addr, "COREBOT_OBSERVABILITY_ADDR=" + anyPort,
	}, p.model...)
	return cmd
}

// run runs one command to its end and returns what it printed.
func (p *program) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := p.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("corebot %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// start starts `corebot serve`. A wait of the demonstration ends if the process ends by itself.
func (p *program) start(ctx context.Context) error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the process has its own
	s := &process{cmd: p.command(context.WithoutCancel(ctx), "serve"), gone: make(chan struct{})}
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start corebot serve: %w", err)
	}
	p.serving = s
	go func() {
		err := s.cmd.Wait()
		if !s.meant.Load() {
			p.ended(fmt.Errorf("corebot serve ended by itself: %w\n%s", err, p.lastLines()))
		}
		close(s.gone)
	}()
	return p.findWebhook(ctx)
}

// findWebhook reads from the log where the webhook listens. Later starts listen there too.
func (p *program) findWebhook(ctx context.Context) error {
	for p.addr == anyPort {
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for the webhook: %w", err)
		}
		log, err := os.ReadFile(p.logFile())
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for line := range bytes.Lines(log) {
			var said struct{ Addr, Message string }
			if json.Unmarshal(line, &said) == nil && said.Message == "webhook" {
				p.addr = said.Addr
			}
		}
	}
	return nil
}

// kill ends the serving process as the loss of power does: SIGKILL, which no process can notice.
func (p *program) kill() {
	if p.serving == nil {
		return
	}
	p.serving.meant.Store(true)
	_ = p.serving.cmd.Process.Kill() // an error says that it has ended
	<-p.serving.gone
	p.serving = nil
	p.kills++
}

// restart kills the serving process and starts another.
func (p *program) restart(ctx context.Context) error {
	p.kill()
	return p.start(ctx)
}

// lastLines is the end of the log, for an error.
func (p *program) lastLines() string {
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}

// sleep waits, or says why there is nothing to wait for any more.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
