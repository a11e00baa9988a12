package isolation

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	maxFrame = 24 << 20 // bytes of a job's input, and of its answer
	maxDials = 64       // connections of one job
)

// link is the connection between Corebot and a worker that does a job: frames of a length and JSON. Corebot sends the
// job; the worker asks for connections, one at a time, and then answers.
type link struct {
	conn *net.UnixConn
	said atomic.Bool // the worker has said something: it has begun
}

// frame is a message. In each, one field is set.
type frame struct {
	Input  []byte       `json:"input,omitempty"`
	Dial   *dialRequest `json:"dial,omitempty"`
	Dialed *dialReply   `json:"dialed,omitempty"` // with a connection, unless there is an error
	Began  bool         `json:"began,omitempty"`
	Answer []byte       `json:"answer,omitempty"`
	Final  bool         `json:"final,omitempty"` // Answer is one, even if it is empty
}

type dialRequest struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

type dialReply struct {
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"`
}

// newLink takes over one end of a connection.
func newLink(f *os.File) (*link, error) {
	defer f.Close() //nolint:errcheck // the link has its own
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open a link: %w", err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("open a link: it is no socket of the right kind"), conn.Close())
	}
	return &link{conn: unix}, nil
}

func (l *link) close() { _ = l.conn.Close() }

func (l *link) begun() bool { return l.said.Load() }

// host is Corebot's side: it gives the job and returns the answer.
func (l *link) host(ctx context.Context, j Job) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Now()) })()
	if err := l.send(frame{Input: j.Input}, nil); err != nil {
		return nil, err
	}
	for dials := 0; ; {
		f, err := l.receive()
		if err != nil {
			return nil, err
		}
		l.said.Store(true)
		switch {
		case f.Final:
			return f.Answer, nil
		case f.Began:
		case f.Dial == nil:
			return nil, errors.New("it said what nobody can make sense of")
		default:
			if dials++; dials > maxDials {
				return nil, fmt.Errorf("it asked for more than %d connections", maxDials)
			}
			if err := l.connect(ctx, j, *f.Dial); err != nil {
				return nil, err
			}
		}
	}
}

// connect makes a connection for the worker and hands it over.
func (l *link) connect(ctx context.Context, j Job, to dialRequest) error {
	conn, err := net.Conn(nil), error(&Refused{"this job has no network"})
	if j.Dial != nil {
		conn, err = j.Dial(ctx, to.Network, to.Address)
	}
	if err != nil {
		refused := (*Refused)(nil)
		return l.send(frame{Dialed: &dialReply{Error: err.Error(), Refused: errors.As(err, &refused)}}, nil)
	}
	defer conn.Close() //nolint:errcheck // the worker has its own
	file, ok := conn.(interface{ File() (*os.File, error) })
	if !ok {
		return fmt.Errorf("a connection of the kind %T cannot be handed over", conn)
	}
	handle, err := file.File()
	if err != nil {
		return fmt.Errorf("hand a connection over: %w", err)
	}
	defer handle.Close() //nolint:errcheck // the worker has its own
	return l.send(frame{Dialed: &dialReply{}}, handle)
}

// send writes a frame; with a handle, the other side is given what is behind it.
func (l *link) send(f frame, handle *os.File) error {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	text = append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	if handle == nil {
		_, err = l.conn.Write(text)
		return err
	}
	n, _, err := l.conn.WriteMsgUnix(text, handleMessage(handle), nil)
	if err == nil && n < len(text) {
		_, err = l.conn.Write(text[n:])
	}
	return err
}

// receive reads a frame. It takes no descriptors that come with the frame: the kernel closes them.
func (l *link) receive() (frame, error) {
	var size [4]byte
	if _, err := io.ReadFull(l.conn, size[:]); err != nil {
		return frame{}, ended(err)
	}
	return l.body(size)
}

// body reads what follows the length.
func (l *link) body(size [4]byte) (f frame, err error) {
	n := binary.BigEndian.Uint32(size[:])
	if most := uint32(maxFrame*4/3 + 1<<10); n > most { // bytes are base64 in JSON
		return f, fmt.Errorf("it said %d bytes at once, the limit is %d", n, most)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(l.conn, text); err != nil {
		return f, ended(err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("it said what nobody can make sense of: %w", err)
	}
	return f, nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ended without one")
	}
	return err
}
