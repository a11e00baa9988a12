package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// Transcription says who transcribes recordings.
type Transcription struct {
	BaseURL  string
	APIKey   string // empty for servers that want none
	Model    string
	Timeout  time.Duration // of one recording
	MaxBytes int64         // of one recording
	// Open opens a recording of a chat, and says how long it is.
	Open func(ctx context.Context, k corebot.Key, hash string) (io.ReadCloser, int64, error)
}

// Transcriber asks an OpenAI-compatible endpoint, /audio/transcriptions, for the words of recordings. A recording
// streams from the disk to the service.
type Transcriber struct {
	opts   Transcription
	client *http.Client
}

// NewTranscriber connects to nothing.
func NewTranscriber(o Transcription) *Transcriber {
	return &Transcriber{o, &http.Client{
		Transport:     exchange.NewTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// maxTranscript bounds what is read of an answer, in bytes.
const maxTranscript = 1 << 20

// endings are the ends of names by which services tell formats.
var endings = map[string]string{
	"audio/ogg": ".ogg", "audio/mpeg": ".mp3", "audio/mp4": ".m4a", "audio/wave": ".wav", "audio/webm": ".webm",
	"audio/flac": ".flac",
}

// Transcribe gives the words of a recording and the model that was asked. The error is for people, and names neither
// the key nor what the service has said.
func (t *Transcriber) Transcribe(ctx context.Context, k corebot.Key, p corebot.Part) (words, model string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	content, size, err := t.opts.Open(ctx, k, p.Hash)
	if err != nil {
		return "", "", errors.New("its content is not kept")
	}
	defer content.Close() //nolint:errcheck // only read
	if size > t.opts.MaxBytes {
		return "", "", fmt.Errorf("it has %d bytes, and at most %d are transcribed", size, t.opts.MaxBytes)
	}
	body, in := io.Pipe()
	form := multipart.NewWriter(in)
	go func() { _ = in.CloseWithError(t.write(form, p, content)) }()
	defer body.Close() //nolint:errcheck // ends the writer, whatever it was at
	address := strings.TrimRight(t.opts.BaseURL, "/") + "/audio/transcriptions"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return "", "", errors.New("the address of the service cannot be used")
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	if t.opts.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+t.opts.APIKey)
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return "", "", errors.New("the transcription service does not answer")
	}
	defer answer.Body.Close() //nolint:errcheck // read, or given up
	if answer.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("the transcription service refused it (%d)", answer.StatusCode)
	}
	var said struct {
		Text *string `json:"text"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxTranscript)).Decode(&said)
	if err != nil || said.Text == nil {
		return "", "", errors.New("the transcription service gave something that is no transcript")
	}
	return strings.TrimSpace(strings.ToValidUTF8(*said.Text, "\ufffd")), t.opts.Model, nil
}

// write writes the form: the model, and the recording under a name that says nothing of its sender.
func (t *Transcriber) write(form *multipart.Writer, p corebot.Part, content io.Reader) error {
	if err := form.WriteField("model", t.opts.Model); err != nil {
		return err
	}
	file, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="voice` + endings[p.MediaType] + `"`},
		"Content-Type":        {p.MediaType},
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return form.Close()
}
