package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/typeahead"
)

const (
	framesPerSecond = 30 // enough for text, and half the idle wake-ups of the default

	// the size of a terminal that does not tell
	defaultWidth  = 80
	defaultHeight = 24
)

// screen is the interactive session: the model in bubbletea's loop, and the goroutines that feed it.
type screen struct {
	ctx     context.Context
	opts    Options
	key     corebot.Key
	mail    courier
	out     *outlet
	inbox   chan showMsg
	ended   chan struct{}
	model   *model
	program *tea.Program
}

func newScreen(ctx context.Context, o Options, key corebot.Key, mail courier) (*screen, error) {
	s := &screen{
		ctx: ctx, opts: o, key: key, mail: mail, out: &outlet{w: o.Out}, inbox: make(chan showMsg),
		ended: make(chan struct{}),
	}
	width, height := terminalSize(o.Out)
	h, historyErr := openHistory(o.HistoryFile)
	s.model = newModel(o, h, width, height)
	s.model.wrote = s.out.failure
	s.model.paths, s.model.place = o.Files.Complete, o.Files.Path
	if o.Session != nil {
		s.model.session = func() ([]corebot.HistoryEntry, error) { return o.Session(ctx) }
	}
	if o.Rename != nil {
		s.model.rename = func(name string) error { return o.Rename(ctx, name) }
	}
	if o.Output != nil {
		s.model.outputs = func(message string, position int) (corebot.ToolResult, error) {
			return o.Output(ctx, message, position)
		}
	}
	if historyErr != nil {
		s.model.printError(historyErr)
	}
	// Before bubbletea has the terminal: it is in its usual mode, and nothing is drawn yet that this could disturb.
	opening := strings.TrimRight(header(o, s.model.look, width), "\n") + "\n\n"
	if past := pastText(o.Past, s.model.look, width, time.Now()); past != "" {
		opening += past + "\n"
		s.model.recall(o.Past)
	}
	if _, err := io.WriteString(o.Out, opening); err != nil {
		return nil, fmt.Errorf("write to the terminal: %w", err)
	}
	s.program = tea.NewProgram(s.model, s.programOptions(width, height)...)
	return s, nil
}

func (s *screen) programOptions(width, height int) []tea.ProgramOption {
	options := []tea.ProgramOption{
		tea.WithInput(typeahead.Input(s.opts.In)), tea.WithOutput(s.out.terminal()), tea.WithWindowSize(width, height),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler(), // signals are the program's, through ctx
		tea.WithFilter(sized),
	}
	if s.opts.NoColor {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	return options
}

// sized gives a size to a terminal that does not know its own, such as that of a container: nothing would be drawn.
func sized(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, is := msg.(tea.WindowSizeMsg); is && (size.Width <= 0 || size.Height <= 0) {
		return tea.WindowSizeMsg{Width: defaultWidth, Height: defaultHeight}
	}
	return msg
}

func terminalSize(out io.Writer) (width, height int) {
	if f, ok := out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return defaultWidth, defaultHeight
}

// run blocks until the user has left or the session's context ended. cancel ends what the session started.
func (s *screen) run(cancel context.CancelFunc) error {
	var feeders sync.WaitGroup
	s.model.deliver = func(l letter) {
		feeders.Go(func() {
			l, err := l.attach(s.opts.Files)
			if err == nil {
				err = s.mail.deliver(s.ctx, l)
			}
			s.program.Send(deliveredMsg{l, err})
		})
	}
	unwatch := func() {}
	if s.opts.Watch != nil {
		events, stop := s.opts.Watch(s.key)
		unwatch = stop
		feeders.Go(func() { forwardEvents(events, s.program.Send) })
	}
	feeders.Go(s.forwardReplies)
	stopLeaving := context.AfterFunc(s.ctx, func() { s.program.Send(leaveMsg{}) })

	_, err := s.program.Run()

	stopLeaving()
	close(s.ended)
	cancel()
	unwatch()
	feeders.Wait()
	if err != nil {
		return fmt.Errorf("run the terminal: %w", err)
	}
	return nil
}

// forwardEvents passes on what has come up together: a fast stream is one redraw, not hundreds.
func forwardEvents(events <-chan live.Event, post func(tea.Msg)) {
	for e := range events {
		batch := eventsMsg{e}
		for range len(events) {
			next, ok := <-events
			if !ok {
				break
			}
			batch = append(batch, next)
		}
		post(batch)
	}
}

func (s *screen) forwardReplies() {
	for {
		select {
		case m := <-s.inbox:
			s.program.Send(m)
		case <-s.ended:
			return
		}
	}
}

// show hands m to the model. Given it again while it is still being printed, the model does not print it twice.
func (s *screen) show(ctx context.Context, m channels.Outbound) error {
	done := make(chan error, 1)
	select {
	case s.inbox <- showMsg{m, done}:
	case <-s.ended:
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: retryUnseen, Err: errLeft}
	case <-ctx.Done():
		return held(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-s.ended:
		return s.afterEnd(done)
	case <-ctx.Done():
		return held(ctx)
	}
}

// connection hands the line to the model, unless the session has ended.
func (s *screen) connection(text string, gone bool) { s.program.Send(connectionMsg{text, gone}) }

// afterEnd is the answer to a reply that was shown while the session ended: done, if it was done.
func (s *screen) afterEnd(done <-chan error) error {
	select {
	case err := <-done:
		return err
	default:
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: retryUnseen, Err: errLeft}
	}
}
