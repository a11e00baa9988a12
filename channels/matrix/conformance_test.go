package matrix_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

var account = channels.Account{Kind: "matrix", Name: "main"}

const (
	room    = "!room:test"
	mallory = "@mallory:test"
)

// platform is a server that ends with the test, about which it has nothing to complain.
func platform(t *testing.T) *matrixtest.Server {
	t.Helper()
	s := matrixtest.New()
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	return s
}

// open makes the channel of the server's account.
func open(t *testing.T, s *matrixtest.Server) *matrix.Channel {
	t.Helper()
	return openWith(t, s, zerolog.Nop())
}

func openWith(t *testing.T, s *matrixtest.Server, log zerolog.Logger) *matrix.Channel {
	t.Helper()
	return openAt(t, s, channels.Site{Account: account, Log: log})
}

func openAt(t *testing.T, s *matrixtest.Server, site channels.Site) *matrix.Channel {
	t.Helper()
	c, err := matrix.New(matrix.Settings{
		Homeserver: s.URL(), Token: matrixtest.Token, Hourly: hourly, Poll: 30 * time.Second,
	},
		site)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*matrix.Channel)
}

func TestMatrixKeepsTheGuaranteesOfAChannel(t *testing.T) {
	channeltest.Run(t, subject)
}

func TestMatrixGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, subject)
}

func TestMatrixGivesAMessageAgainAndItIsAnsweredOnce(t *testing.T) {
	channeltest.Redelivery(t, matrix.Network().Redelivers, subject)
}

func subject(t *testing.T) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t))
}

func subjectOf(t *testing.T, s *matrixtest.Server) channeltest.Subject {
	names, files := &channeltest.Names{}, channeltest.NewFiles(t)
	const closed = "!closed:test"
	s.Room(room)
	s.Room(closed)
	s.Lock(closed)
	site := channels.Site{Account: account, Log: zerolog.Nop(), Files: files}
	began := false
	return channeltest.Subject{
		Revoke: func() { s.Revoke(false); s.Cut() }, Restore: s.Restore, Secret: matrixtest.Token,
		Revoked: "the access token is unknown to the homeserver",
		Closed:  closed, Refused: "may not write in this room",
		Account: account, Chat: room, ID: names.Of,
		Open:  func() channels.Channel { return openAt(t, s, site) },
		Files: files, Uploads: func() []string { return s.Uploads(room) }, TooLarge: 1<<20 + 1,
		Say: func(_ channels.Accepter, id, text string) {
			if !began { // what is said before the first sync is history
				began = true
				until(t, "the account has begun", func() bool { return len(s.Calls("sync")) >= 2 })
			}
			names.Is(id, s.Say(matrixtest.Said{Room: room, Text: text}))
		},
		Attach: func(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
			until(t, "the account has begun", func() bool { return len(s.Calls("sync")) >= 2 })
			s.Files.Put(f)
			names.Is(id, s.Say(matrixtest.Said{Room: room, Content: map[string]any{
				"msgtype": "m.file", "body": text, "filename": f.Name, "url": "mxc://elsewhere.test/" + f.ID,
				"info": map[string]any{"mimetype": f.MediaType, "size": f.Size},
			}}))
			return ""
		},
		Pose: func(id, text string) {
			s.Rename(room, mallory, matrixtest.NameOf(matrixtest.Ann)) // with three it is a group
			names.Is(id, s.Say(matrixtest.Said{
				Room: room, From: mallory, Text: text, Content: mentions(matrixtest.Bot),
			}))
		},
		Edit: func(_ channels.Accepter, id, of, text string) {
			names.Is(id, s.Edit(room, matrixtest.Ann, names.Of(of), text))
		},
		Delete: func(_ channels.Accepter, id, of string) {
			names.Is(id, s.Redact(room, matrixtest.Ann, names.Of(of)))
		},
		Again: func(id string) { s.Again(room, names.Of(id)) },
		Shown: func() []string { return s.Texts(room) },
		Cut:   s.Cut, Silence: s.Silence,
		Refuse: func(n int) { s.Refuse(n, 1) },
	}
}
