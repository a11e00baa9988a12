package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

// TestOfADeletedChatNothingIsInTheHomeALaterBackupOrTheLog gives a chat files, a line of memory and a dead
// letter. After the deletion it looks at every byte of the home, of a backup and of the log.
func TestOfADeletedChatNothingIsInTheHomeALaterBackupOrTheLog(t *testing.T) {
	long.Only(t, "TestAtATerminalADeletionAsksFirst")
	t.Parallel()
	s := startService(t)
	for chat, word := range map[string]string{"gone": "wombat", "stays": "quokka"} {
		for i, content := range []string{
			"a " + word + " lives here",
			"/tool memory.write {\"scope\":\"chat\",\"content\":\"likes the " + word + "\"}",
		} {
			s.tells(chat, word, i, content)
		}
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	s.terminate()
	s.env = []string{
		"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + refusing.URL + "/v1", "OPENAI_API_KEY=x",
		"OPENAI_MODEL=scripted",
	}
	s.startAndWait()
	s.tells("gone", "wombat", 9, "the wombat is lost")
	if letters := s.output("dlq", "list"); !strings.Contains(letters, "gone-9") {
		t.Fatalf("the dead letters are %s", letters)
	}

	around := filepath.Dir(s.home) // of the home and of the logs
	before := filepath.Join(t.TempDir(), "backup")
	s.output("db", "backup", "--to", before)
	for _, part := range []string{"corebot.db", "MEMORY.md", "data/files/"} {
		if all := strings.Join(filesWith(t, before, "wombat"), "\n"); !strings.Contains(all, part) {
			t.Fatalf("an earlier backup has no wombat in %s: %s", part, all)
		}
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(fileWith("wombat")))
	if len(filesWith(t, filepath.Join(before, "manifest.json"), hash)) == 0 {
		t.Fatal("the manifest of the earlier backup does not name the file")
	}
	s.output("chats", "delete", "main:webhook::gone")
	s.output("db", "backup", "--to", filepath.Join(around, "backup"))
	for _, mark := range []string{"wombat", hash} {
		if left := filesWith(t, around, mark); len(left) > 0 {
			t.Errorf("%s is left in %v", mark, left)
		}
	}
	if all := filesWith(t, filepath.Join(around, "backup"), "quokka"); len(all) < 3 {
		t.Errorf("the backup has of another chat only %v", all)
	}
	if audit := s.output("audit", "--json"); !strings.Contains(audit, "chat.delete") {
		t.Errorf("the audit has no deletion: %s", audit)
	}
	if verified := s.output("audit", "verify"); !strings.Contains(verified, "emptied") {
		t.Errorf("the audit says %s", verified)
	}
}

// TestOfForgottenLinesNothingIsInTheHomeALaterBackupOrTheLog forgets lines of memory in each way: in the chat, by the
// command, and by a memory.write that replaces the page. An editor wrote the lines, so no message says them. The model
// has been shown them, and an endpoint has embedded them.
func TestOfForgottenLinesNothingIsInTheHomeALaterBackupOrTheLog(t *testing.T) {
	long.Only(t, "TestAtATerminalADeletionAsksFirst")
	t.Parallel()
	e := &embeddings{times: map[string]int{}}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	s := startService(t, "COREBOT_LLM_EMBEDDINGS_BASE_URL="+server.URL, "COREBOT_LLM_EMBEDDINGS_MODEL=m",
		"COREBOT_CONSOLE_ADDR=127.0.0.1:0")
	const key = "main:webhook::burrow"
	s.output("admin", "grant", "webhook::ann")
	s.tells("burrow", "quokka", 0, `/tool memory.write {"scope":"chat","content":"likes the quokka"}`)
	around, shared := filepath.Dir(s.home), filepath.Join(s.home, "workspace", "memory", "MEMORY.md")
	var own string
	for _, page := range filesNamed(t, filepath.Join(s.home, "workspace"), "MEMORY.md") {
		if page != shared {
			own = page
		}
	}
	// The lines below get vectors after the search below has ended. A search by vectors would show them to the model,
	// and what the model was shown stays in the journal.
	e.hold("the ")
	line := "the wombat digs"
	adds(t, own, "\n"+line+"\nthe numbat runs\n")
	adds(t, shared, "\nthe bilby sleeps\n")
	s.tells("burrow", "quokka", 1, `/tool memory.search {"query":"burrow"}`)
	e.hold("")
	s.await("vectors of the lines", func() bool {
		least, _ := e.counts([]string{line, "the bilby sleeps"})
		return least > 0
	})
	gone := []string{"wombat", "numbat", "bilby"}
	for _, word := range gone {
		if len(filesWith(t, s.home, word)) == 0 {
			t.Fatalf("%s was never there", word)
		}
	}

	sum := sha256.Sum256([]byte(line))
	s.tells("burrow", "quokka", 2, fmt.Sprintf("/memory forget L%09d", binary.BigEndian.Uint64(sum[:])%1e9))
	shown := s.output("memory", "show", key)
	if strings.Contains(shown, "wombat") || !strings.Contains(shown, "numbat") {
		t.Fatalf("the chat has forgotten a line, and has %s", shown)
	}
	s.output("memory", "forget", key, "--untrusted")
	s.output("send", "--wait", `/tool memory.write {"scope":"agent","mode":"replace","content":"all like the quokka"}`)
	s.terminate()
	s.output("db", "vacuum")
	s.output("db", "backup", "--to", filepath.Join(around, "backup"))
	for _, word := range gone {
		if left := filesWith(t, around, word); len(left) > 0 {
			t.Errorf("%s is left in %v", word, left)
		}
	}
	if kept := filesWith(t, filepath.Join(around, "backup"), "quokka"); len(kept) < 3 {
		t.Errorf("the backup has of other lines only %v", kept)
	}
}

// adds has an editor add text to a file.
func adds(t *testing.T, path, text string) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(old, text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fileWith is what the file of a message says.
func fileWith(word string) []byte { return []byte("in the file is a " + word) }

// tells posts a message with a file, and waits for its end.
func (s *service) tells(chat, word string, i int, content string) {
	s.t.Helper()
	id := fmt.Sprintf("%s-%d", chat, i)
	file := base64.StdEncoding.EncodeToString(fileWith(word))
	if status := s.post(fmt.Sprintf(`{"id":%q,"chatId":%q,"senderId":"ann","content":%q,"attachments":[{"name":%q,`+
		`"data":%q}]}`, id, chat, content, word+".txt", file)); status != http.StatusAccepted {
		s.t.Fatalf("the message was answered %d", status)
	}
	s.await("the end of "+id, func() bool {
		life := s.output("why", id)
		return strings.Contains(life, "ended: answered") || strings.Contains(life, "dead: permanent")
	})
}

// At a terminal the command names what goes, and goes on with a yes only. --yes leaves the question out.
func TestAtATerminalADeletionAsksFirst(t *testing.T) {
	t.Parallel()
	c := twoChats(t)
	for _, answer := range long.Or([]string{""}, []string{"n", ""}) {
		sc := startScreen(t, c.command("", "chats", "delete", "main:cli:local:gone"), 100, 30)
		sc.await(0, "would delete main:cli:local:gone")
		sc.await(0, "2  message")
		sc.await(0, "Delete all of that for good? (y/n)")
		sc.press(answer + "\r")
		if code := sc.ends(); code != 1 || !strings.Contains(sc.seen(), "nothing was changed") {
			t.Errorf("after %q it ended with %d", answer, code)
		}
		if !c.finds("gone", "wombat") {
			t.Fatalf("after %q the chat is gone", answer)
		}
	}
	sc := startScreen(t, c.command("", "chats", "delete", "main:cli:local:gone"), 100, 30)
	sc.await(0, "(y/n)")
	sc.press("y\r")
	if code := sc.ends(); code != 0 {
		t.Errorf("after y it ended with %d", code)
	}
	sc = startScreen(t, c.command("", "chats", "delete", "main:cli:local:stays", "--yes"), 100, 30)
	if code := sc.ends(); code != 0 || strings.Contains(sc.seen(), "(y/n)") {
		t.Errorf("with --yes it ended with %d", code)
	}
	for _, word := range []string{"wombat", "quokka"} {
		if left := filesWith(t, c.home, word); len(left) > 0 {
			t.Errorf("%s is left in %v", word, left)
		}
	}
}

// The question of `skills install` came to nobody: what hides secrets stood before the terminal.
func TestAtATerminalAnInstallOfASkillAsksFirst(t *testing.T) {
	long.Only(t, "TestAtATerminalADeletionAsksFirst")
	t.Parallel()
	c := twoChats(t)
	source := filepath.Join(t.TempDir(), "knots")
	page := "---\nname: knots\ndescription: ties knots\n---\nTie.\n"
	if err := os.MkdirAll(source, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "SKILL.md"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, said := range []struct {
		answer string
		code   int
	}{{"n", 1}, {"y", 0}} { // in this order: a skill that is installed is not asked about again
		sc := startScreen(t, c.command("", "skills", "install", source), 100, 30)
		sc.await(0, "(y/n)")
		sc.press(said.answer + "\r")
		if code := sc.ends(); code != said.code {
			t.Errorf("after %q it ended with %d", said.answer, code)
		}
	}
	if all := c.done("skills", "list"); !strings.Contains(all, "knots") {
		t.Errorf("installed are %s", all)
	}
}
