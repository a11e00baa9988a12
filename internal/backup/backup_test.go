package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeDatabase is a file with a text. The real one is tested in storage, and with the rest in cmd/corebot.
type fakeDatabase struct {
	text string
	then func() // runs once the copy is made

	mu  sync.Mutex
	err error // of every copy; guarded by mu
}

// fails has every copy fail from now on; nil: none does.
func (d *fakeDatabase) fails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

const fakeID = "0190b3a4-0000-7000-8000-0123456789ab"

func (d *fakeDatabase) Copy(_ context.Context, to string) (corebot.Inventory, error) {
	d.mu.Lock()
	err := errors.Join(os.WriteFile(to, []byte(d.text), 0o600), d.err)
	d.mu.Unlock()
	if d.then != nil {
		d.then()
	}
	return corebot.Inventory{
		Database: fakeID, Schema: 7, Lanes: []corebot.LaneHead{{Message: "m1", Depth: 1}},
		Counts: corebot.Counts{Waiting: 1},
	}, err
}
func (d *fakeDatabase) Size(context.Context) (int64, error)      { return int64(len(d.text)), nil }
func (d *fakeDatabase) Identity(context.Context) (string, error) { return fakeID, nil }

// fakeHome is a home with everything that a workspace can have in it.
func fakeHome(t testing.TB) (h Home, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"workspace/USER.md": "user", "workspace/chats/a/files/x.sh": "#!/bin/sh", "workspace/empty": "",
		"workspace/\xff\xfe": "not UTF-8", "agents/helper/workspace/USER.md": "helper",
		"workspace/memory/MEMORY.md": "m",
		"openai.key":                 "sk-secret",
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	must(t, os.Chmod(filepath.Join(dir, "workspace/chats/a/files/x.sh"), 0o755))
	must(t, os.Chtimes(filepath.Join(dir, "workspace/USER.md"), time.Unix(7, 0), time.Unix(7, 0)))
	must(t, os.Symlink("/elsewhere", filepath.Join(dir, "workspace/skills")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "workspace/pipe"), 0o600))
	return Home{
		Version: "1.2", Database: &fakeDatabase{text: "database"},
		Trees: []Tree{
			{FilesPath, filepath.Join(dir, "data/files")},
			{"workspace", filepath.Join(dir, "workspace")},
			{"agents/helper/workspace", filepath.Join(dir, "agents/helper/workspace")},
		},
		SettingsFiles: func() ([]SettingsFile, error) {
			return []SettingsFile{{
				Path: "corebot.yaml", Data: []byte("log: {level: debug}\n"),
				Secrets: []Secret{{File: "corebot.yaml", Setting: "webhook.token", Reference: "file:webhook.token"}},
			}}, nil
		},
	}, dir
}

// made is a backup of a fake home.
func made(t testing.TB) (to string, m Manifest) {
	t.Helper()
	h, _ := fakeHome(t)
	to = filepath.Join(t.TempDir(), "backups", "b")
	m, err := Make(t.Context(), h, to)
	must(t, err)
	return to, m
}

// files is every file below a directory with its mode, time and content.
func files(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		must(t, err)
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if entries, _ := os.ReadDir(path); len(entries) == 0 {
				fmt.Fprintf(&out, "%s/ %v\n", rel, info.Mode())
			}
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			fmt.Fprintf(&out, "%s -> %s\n", rel, to)
		default:
			b, err := os.ReadFile(path)
			must(t, err)
			fmt.Fprintf(&out, "%q %v %q\n", rel, info.Mode(), b)
		}
		return nil
	}))
	return out.String()
}

func TestABackupHasTheWholeHomeAndNothingElse(t *testing.T) {
	to, m := made(t)
	got := files(t, to)
	want := `"agents/helper/workspace/USER.md" -rw------- "helper"
"corebot.yaml" -rw------- "log: {level: debug}\n"
"data/corebot.db" -rw------- "database"
`
	if !strings.HasPrefix(got, want) || strings.Contains(got, "sk-secret") || strings.Contains(got, "pipe") ||
		!strings.Contains(got, `"workspace/chats/a/files/x.sh" -rwx------ "#!/bin/sh"`) {
		t.Errorf("it has\n%s", got)
	}
	if m.Total != (Total{Files: 8, Bytes: 57, Skipped: 1}) || m.Database != fakeID || m.Counts.Waiting != 1 ||
		m.Corebot != "1.2" || time.Since(m.MadeAt) > time.Minute {
		t.Errorf("the manifest is %+v", m)
	}
	info, err := os.Stat(to)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("it is open to others: %v", info.Mode())
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
		t.Errorf("beside it are %v (%v)", left, err)
	}
}

// Programs of other people read the manifest.
func TestTheManifestIsOneJSONObjectThatListsEveryFileWithItsHash(t *testing.T) {
	to, _ := made(t)
	text, err := os.ReadFile(filepath.Join(to, ManifestName))
	must(t, err)
	var m struct {
		Format    int
		Schema    int
		Counts    map[string]int
		Lanes     []struct{ Message string }
		AuditHead struct{ Event int }
		CreatedAt time.Time
		Trees     []string
		Secrets   []Secret
		Files     []struct {
			Path, SHA256 string
			Size         int64
		}
	}
	must(t, json.Unmarshal(text, &m))
	if m.Format != 1 || m.Schema != 7 || m.Counts["waiting"] != 1 || len(m.Lanes) != 1 || m.Lanes[0].Message != "m1" ||
		len(m.Secrets) != 1 || fmt.Sprint(m.Trees) != "[workspace agents/helper/workspace]" {
		t.Errorf("%+v", m)
	}
	const ofDatabase = "3549b0028b75d981cdda2e573e9cb49dedc200185876df299f912b79f69dabd8" // of "database"
	if len(m.Files) != 9 || m.Files[0].Path != DatabasePath || m.Files[0].SHA256 != ofDatabase || m.Files[0].Size != 8 {
		t.Errorf("the files are %+v", m.Files)
	}
}

func TestACheckFindsEveryKindOfDamage(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"nothing": {func(*testing.T, string) {}, ""},
		"a changed byte": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, DatabasePath), []byte("databasf"), 0o600))
		}, "data/corebot.db: it is not what was backed up"},
		"a file that is cut off": {func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, "workspace/USER.md"), 2))
		}, "workspace/USER.md: it is not what was backed up"},
		"a file that is longer": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "workspace/empty"), []byte("x"), 0o600))
		}, "workspace/empty: it is not"},
		"a missing file": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "workspace/memory/MEMORY.md")))
		}, "workspace/memory/MEMORY.md: no such file"},
		"a link in the place of a file": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "corebot.yaml")))
			must(t, os.Symlink("data/corebot.db", filepath.Join(dir, "corebot.yaml")))
		}, "corebot.yaml: it is not a plain file"},
		"no manifest": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, ManifestName)))
		}, "is no backup: it has no manifest.json"},
		"an empty manifest": {changes("", ""), "the manifest of"},
		"a manifest that is cut off": {func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, ManifestName), 400))
		}, "unexpected EOF"},
		"a newer format":            {changes(`"format": 1`, `"format": 2`), "it has format 2"},
		"a path out of the backup":  {changes(`workspace/empty`, `workspace/../../x`), "is no file of a backup"},
		"a path that no backup has": {changes(`workspace/empty`, `data/backups/x`), "is no file of a backup"},
		"a database that is missing": {
			changes(`"path":"data/corebot.db"`, `"path":"data/files/db"`),
			"it lists no database",
		},
		"a tree that no home has": {changes(`"workspace"`, `"../workspace"`), "is no directory of a backup"},
		"a file without a hash":   {changes(`"sha256":"`, `"sha256":"0`), "has no hash"},
		"text behind it":          {changes("]\n}\n", "]\n}\n{}"), "something follows"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, want := made(t)
			c.spoil(t, dir)
			m, err := Check(t.Context(), dir)
			switch {
			case c.says == "" && (err != nil || fmt.Sprint(m) != fmt.Sprint(want)):
				t.Errorf("%v\n%+v\n%+v", err, m, want)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || corebot.HintOf(err) == ""):
				t.Errorf("%v (hint %q)", err, corebot.HintOf(err))
			}
		})
	}
}

// changes replaces a part of a manifest, or all of it.
func changes(old, by string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, ManifestName)
		text, err := os.ReadFile(path)
		must(t, err)
		changed := strings.Replace(string(text), old, by, 1)
		if old == "" {
			changed = by
		} else if changed == string(text) {
			t.Fatalf("the manifest has no %q:\n%s", old, text)
		}
		must(t, os.WriteFile(path, []byte(changed), 0o600))
	}
}

func TestWhatIsUnpackedIsAsItWas(t *testing.T) {
	dir, _ := made(t)
	into := t.TempDir()
	_, err := Unpack(t.Context(), dir, into, func(path string) bool { return TreeOf(path) == "workspace" })
	must(t, err)
	want := `"workspace/USER.md" -rw------- "user"
"workspace/chats/a/files/x.sh" -rwx------ "#!/bin/sh"
"workspace/empty" -rw------- ""
"workspace/memory/MEMORY.md" -rw------- "m"
workspace/skills -> /elsewhere
"workspace/\xff\xfe" -rw------- "not UTF-8"
`
	if got := files(t, into); got != "agents/helper/workspace/ drwx------\n"+want {
		t.Errorf("it is\n%s", got)
	}
	info, err := os.Stat(filepath.Join(into, "workspace/USER.md"))
	if err != nil || !info.ModTime().Equal(time.Unix(7, 0)) {
		t.Errorf("%v %v", info.ModTime(), err)
	}
}

// A file can be exchanged between the check and the copy.
func TestWhatIsUnpackedIsHashedAgain(t *testing.T) {
	dir, _ := made(t)
	must(t, os.WriteFile(filepath.Join(dir, "workspace/USER.md"), []byte("abcd"), 0o600))
	_, err := Unpack(t.Context(), dir, t.TempDir(), func(string) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "workspace/USER.md: it is not what was backed up") {
		t.Error(err)
	}
}

func TestABackupThatFailsLeavesNothing(t *testing.T) {
	for name, spoil := range map[string]func(h *Home, dir string, stop context.CancelFunc){
		"a database that cannot be copied": func(h *Home, _ string, _ context.CancelFunc) {
			h.Database.(*fakeDatabase).fails(errors.New("no"))
		},
		"settings that cannot be read": func(h *Home, _ string, _ context.CancelFunc) {
			h.SettingsFiles = func() ([]SettingsFile, error) { return nil, errors.New("no") }
		},
		"too little room": func(h *Home, _ string, _ context.CancelFunc) {
			h.Free = func(string) (int64, error) { return 30, nil }
		},
		"the end of the process": func(h *Home, _ string, stop context.CancelFunc) {
			h.Database.(*fakeDatabase).then = stop
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := fakeHome(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			spoil(&h, dir, stop)
			parent := t.TempDir()
			if _, err := Make(ctx, h, filepath.Join(parent, "b")); err == nil {
				t.Fatal("it succeeded")
			}
			if got := files(t, parent); got != "./ drwxr-xr-x\n" && got != "./ drwx------\n" {
				t.Errorf("it left\n%s", got)
			}
		})
	}
}

func TestABackupTakesThePlaceOfNothing(t *testing.T) {
	h, dir := fakeHome(t)
	to, _ := made(t)
	before := files(t, to)
	for _, place := range []string{
		to, filepath.Join(to, ManifestName), filepath.Join(dir, "workspace", "backup"),
		filepath.Join(dir, "agents/helper/workspace"),
	} {
		if _, err := Make(t.Context(), h, place); err == nil || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", place, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Join(dir, "workspace"), link))
	if _, err := Make(t.Context(), h, filepath.Join(link, "b")); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("behind a link: %v", err)
	}
	if files(t, to) != before {
		t.Error("the backup has changed")
	}
}

func TestABackupFillsADirectoryThatIsEmpty(t *testing.T) {
	h, _ := fakeHome(t)
	to := t.TempDir()
	_, err := Make(t.Context(), h, to)
	must(t, err)
	_, err = Check(t.Context(), to)
	must(t, err)
}

// eachLook is a context that runs something whenever somebody asks whether it has ended.
type eachLook struct {
	context.Context
	do func()
}

func (e eachLook) Err() error {
	e.do()
	return e.Context.Err()
}

// Tools delete files while they are copied.
func TestAFileThatGoesWhileItsDirectoryIsCopiedIsLeftOut(t *testing.T) {
	h, dir := fakeHome(t)
	gone := filepath.Join(dir, "workspace/memory/MEMORY.md")
	must(t, os.WriteFile(filepath.Join(dir, "workspace/memory/A.md"), nil, 0o600))
	parent := t.TempDir()
	ctx := eachLook{t.Context(), func() {
		// the directory was read before its first file is copied
		if first, _ := filepath.Glob(filepath.Join(parent, ".corebot-part-*/workspace/memory/A.md")); len(first) > 0 {
			_ = os.Remove(gone)
		}
	}}
	to := filepath.Join(parent, "b")
	m, err := Make(ctx, h, to)
	must(t, err)
	if m.Total.Files != 8 || m.Total.Skipped != 2 {
		t.Errorf("%+v", m.Total)
	}
	_, err = Check(t.Context(), to)
	must(t, err)
}

func TestPartsOfKilledProcessesAreRemovedAndThoseOfOtherHomesStay(t *testing.T) {
	h, _ := fakeHome(t)
	parent := t.TempDir()
	own, other := filepath.Join(parent, partPrefix(fakeID)+"1"), filepath.Join(parent, partPrefix("else")+"1")
	for _, dir := range []string{own, other} {
		must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	}
	_, err := Make(t.Context(), h, filepath.Join(parent, "b"))
	must(t, err)
	if _, err := os.Stat(own); err == nil {
		t.Error("the own part stays")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestOldBackupsGoAndTheNewestOfEachHomeStay(t *testing.T) {
	h, _ := fakeHome(t)
	dir := t.TempDir()
	for i := range 4 {
		_, err := Make(t.Context(), h, filepath.Join(dir, NameOf(time.Unix(int64(i), 0), fakeID)))
		must(t, err)
	}
	_, err := Make(t.Context(), h, filepath.Join(dir, "by-hand"))
	must(t, err)
	const another = "0190b3a4-0000-7000-8000-0000000000ff"
	foreign := filepath.Join(dir, NameOf(time.Unix(0, 0), another))
	_, err = Make(t.Context(), h, foreign)
	must(t, err)
	changes(fakeID, another)(t, foreign)
	removed, err := Prune(dir, fakeID, 2)
	must(t, err)
	all, err := List(dir)
	must(t, err)
	if len(removed) != 2 || filepath.Base(removed[1]) != NameOf(time.Unix(0, 0), fakeID) || len(all) != 4 {
		t.Errorf("removed %v, left %v", removed, all)
	}
	if removed, err = Prune(dir, fakeID, 0); err != nil || len(removed) != 1 {
		t.Errorf("removed %v (%v), and the newest must stay", removed, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".corebot-part-*")); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestADirectoryOfBackupsIsNoBackupAndTheErrorNamesTheNewest(t *testing.T) {
	to, _ := made(t)
	_, err := Check(t.Context(), filepath.Dir(to))
	if err == nil || corebot.HintOf(err) != "the newest backup in it is "+to {
		t.Errorf("%v (%s)", err, corebot.HintOf(err))
	}
}

func FuzzAManifestIsReadOrRefused(f *testing.F) {
	dir, _ := made(f)
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	must(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":1,"createdAt":"2026-01-01T00:00:00Z","files":[{"path":"data/corebot.db","size":-1}]}`))
	f.Add([]byte(`{"files":[{"pathBytes":"Li4veA=="}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readManifest(strings.NewReader(string(text)), func(f File) error {
			p, tree := partOf(f.name())
			if !filepath.IsLocal(f.name()) || p == partNone || p == partTree && tree == "" {
				t.Errorf("it takes the file %q", f.name())
			}
			return nil
		})
		if err == nil && (m.Format != 1 || m.MadeAt.IsZero()) {
			t.Errorf("it takes %+v", m)
		}
	})
}
