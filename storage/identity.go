package storage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/swap"
	"github.com/corebot/corebot/migrations"
)

// rememberedName is the file in which a home remembers its database. It is written after the database has its name. So
// an interrupted start can leave a database without a memory, but never a memory without a database.
const rememberedName = "database.json"

// auditKeyName is the key with which `corebot serve` signs the audit trail of the database.
const auditKeyName = "audit.key"

// identity tells databases apart.
type identity struct {
	ID        string `json:"id"`        // '' in a file of an older schema
	CreatedAt int64  `json:"createdAt"` // unix milliseconds; tells databases of older schemas apart
}

// is says whether a file with this identity is the remembered database or a copy of it, also a backup from before it
// had an id.
func (i identity) is(remembered identity) bool {
	if i.ID == "" || remembered.ID == "" {
		return i.CreatedAt == remembered.CreatedAt
	}
	return i.ID == remembered.ID
}

// past is what a data directory knows about its earlier database.
type past struct {
	remembered identity // zero: there is none, or it cannot be read
	trace      string   // why there must have been a database; empty: no trace of one
}

// pastOf looks for traces of earlier starts. Homes of older versions have no memory file. Their traces are a
// write-ahead log with content, the ballast, or backups: these are created only beside a whole database. The key of the
// audit trail lies outside of the directory. So a home that has lost the whole directory is not taken for a new one.
func pastOf(dir string) (p past, err error) {
	text, err := os.ReadFile(filepath.Join(dir, rememberedName))
	switch {
	case err == nil:
		p.trace = rememberedName
		if json.Unmarshal(text, &p.remembered) != nil {
			p.remembered = identity{} // an unreadable memory still shows that there was a database
		}
		return p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return p, corebot.WithHint(fmt.Errorf("look for what this home remembers of its database: %w", err),
			"make the files of "+dir+" readable for the user who runs Corebot")
	case hasContent(filepath.Join(dir, FileName+"-wal")):
		p.trace = FileName + "-wal"
	case hasContent(filepath.Join(dir, ballastName)):
		p.trace = ballastName
	default:
		p.trace = cmp.Or(firstOf(filepath.Join(dir, backupsName, "*.db")),
			firstOf(filepath.Join(dir, backupsName, "*", "manifest.json")),
			firstOf(filepath.Join(dir, asidePrefix+"*", FileName)),
			firstOf(filepath.Join(filepath.Dir(dir), auditKeyName)))
	}
	return p, nil
}

func firstOf(pattern string) string {
	if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
		return filepath.Base(found[0])
	}
	return ""
}

// lost refuses to continue without a database that the home had. Nothing was changed, and no command in the hint
// deletes anything.
func lost(dir, what string, p past) error {
	path := filepath.Join(dir, FileName)
	err := fmt.Errorf("%s %s, and this home had a database (%s says so)", path, what, p.trace)
	return corebot.WithHint(err, wayBack(dir))
}

// wayBack names the newest backup and the commands to continue with.
func wayBack(dir string) string {
	const anew = "`corebot db new` begins with an empty database. " +
		"Both first move what is there to a directory of its own, and delete nothing"
	if backup := newestBackup(dir); backup != "" {
		return "`corebot db restore " + backup + "` goes on with the newest backup; " + anew
	}
	return "there is no backup in data/" + backupsName + ": find one elsewhere, and go on with `corebot db restore`; " +
		anew
}

// inspect examines the database of a data directory before anything else opens it, and changes nothing. It refuses a
// file that is not a database, is truncated, or belongs to another program or home. It also refuses a missing or empty
// file if the home had a database. version is the schema version; 0 means that there is no database yet.
//
// It gives the connection with which it has read, because each new one parses the whole schema. The connection can
// only read. It is nil if there is no database, and after an error.
func inspect(dir string) (version int64, p past, c *prepared, err error) {
	path := filepath.Join(dir, FileName)
	if swap.Pending(dir) {
		return 0, p, nil, corebot.WithHint(fmt.Errorf("a restore of %s was cut short", dir),
			"`corebot db migrate` ends it, and so does the next start of Corebot")
	}
	if p, err = pastOf(dir); err != nil {
		return 0, p, nil, err
	}
	state, err := checkFile(path)
	switch {
	case err != nil && corebot.HintOf(err) == "":
		return 0, p, nil, corebot.WithHint(err, "it was not changed; "+wayBack(dir))
	case err != nil:
		return 0, p, nil, err
	case state != "" && p.trace != "":
		return 0, p, nil, lost(dir, state, p)
	case state != "":
		return 0, p, nil, nil
	}
	if c, err = openToInspect(path); err != nil {
		return 0, p, nil, damagedHint(err, dir)
	}
	if version, err = c.inspect(dir, p); err != nil || version == 0 {
		_ = c.Close() // it has only read, and says its last error again
		c = nil
	}
	return version, p, c, err
}

// inspect looks into the open file.
func (c *prepared) inspect(dir string, p past) (version int64, err error) {
	version, err = c.version(filepath.Join(dir, FileName), migrations.FS)
	switch {
	case err != nil:
		return 0, damagedHint(err, dir)
	case version > SchemaVersion():
		return version, newer(version, SchemaVersion())
	case version == 0 && p.trace != "":
		return 0, lost(dir, "has no tables", p)
	case version == 0:
		return 0, nil
	}
	has, err := c.identity()
	if err != nil {
		return version, damagedHint(err, dir)
	}
	return version, checkIdentity(dir, p, has)
}

// adviceToCheck begins the hint about a damaged database.
const adviceToCheck = "nothing was changed. `corebot db check` says what is wrong; "

// ForCheck is an error of [OpenReader] for the command that its hint would recommend.
func ForCheck(err error) error {
	if rest, damaged := strings.CutPrefix(corebot.HintOf(err), adviceToCheck); damaged {
		return corebot.WithHint(err, "too much is damaged to look at each table; nothing was changed; "+rest)
	}
	return err
}

// damagedHint adds the newest backup to an error that has only general advice.
func damagedHint(err error, dir string) error {
	if corebot.HintOf(err) != repairHint {
		return err
	}
	return corebot.WithHint(err, adviceToCheck+wayBack(dir))
}

// checkIdentity refuses a database other than the one that the home remembers.
func checkIdentity(dir string, p past, has identity) error {
	if p.remembered == (identity{}) || has.is(p.remembered) {
		return nil
	}
	path := filepath.Join(dir, FileName)
	err := fmt.Errorf("%s is the database of another home: it is %s, and this home's is %s", path, has, p.remembered)
	return corebot.WithHint(err, "it was not changed; "+wayBack(dir)+". `corebot db restore "+path+
		"` goes on with this one")
}

func (i identity) String() string {
	return cmp.Or(i.ID, "one of "+fromMillis(i.CreatedAt).UTC().Format("2006-01-02 15:04:05"))
}

var (
	selectIdentity = &query{`SELECT identity, created_at FROM store WHERE id = 1`}
	giveIdentity   = &query{`UPDATE store SET identity = ? WHERE id = 1 AND identity = ''`}
)

// remember gives the database an id if it has none, and lets the home remember it. If the database was restored from a
// time without ids, it gets the id that the home knows.
func (c *prepared) remember(dir string, p past) error {
	has := identity{}
	err := c.each(selectIdentity, func(s scanner) error { return s.Scan(&has.ID, &has.CreatedAt) })
	if err != nil {
		return fmt.Errorf("read which database it is: %w", classify(err))
	}
	if has.ID == "" {
		// A new id fails only without randomness, and then Go ends the program before.
		has.ID = cmp.Or(p.remembered.ID, uuid.Must(uuid.NewV7()).String())
		if _, err := c.exec(giveIdentity, has.ID); err != nil {
			return fmt.Errorf("give the database its id: %w", classify(err))
		}
	}
	if has == p.remembered {
		return nil
	}
	return writeRemembered(dir, has)
}

// writeRemembered puts the memory file in place once it is whole and on disk.
func writeRemembered(dir string, i identity) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, rememberedName)
	part := path + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("remember the database: %w", err)
	}
	if err := putInPlace(part, path); err != nil {
		return fmt.Errorf("remember the database: %w", err)
	}
	return nil
}

var (
	countIdentity = &query{`SELECT COUNT(*) FROM pragma_table_info('store') WHERE name = 'identity'`}
	identityByAge = &query{`SELECT '', created_at FROM store WHERE id = 1`}
)

// identity reads the identity of a file with any schema that this program knows.
func (c *prepared) identity() (i identity, err error) {
	var has, rows int
	if err := c.each(countIdentity, func(s scanner) error { return s.Scan(&has) }); err != nil {
		return i, classify(err)
	}
	q := identityByAge // of a schema that has no ids yet
	if has > 0 {
		q = selectIdentity
	}
	err = c.each(q, func(s scanner) error {
		rows++
		return s.Scan(&i.ID, &i.CreatedAt)
	})
	if err == nil && rows == 0 {
		err = errors.New("the table store has no row")
	}
	if err != nil {
		return i, fmt.Errorf("read which database it is: %w", classify(err))
	}
	return i, nil
}
