package tools

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// FileCharges keep whose turns made the folders of chats grow. Charge notes what a folder held before a call and after
// it; without a principal it notes what the folder holds.
type FileCharges interface {
	Sum(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.FileSum, error)
	Recorded(ctx context.Context, k corebot.Key) (corebot.FileSum, error)
	Chats(ctx context.Context, p corebot.Principal, limit int) ([]corebot.Key, error)
	Charge(ctx context.Context, k corebot.Key, p corebot.Principal, before, after corebot.FileSum) error
}

// SenderQuota is what the files of one sender can take in the folders of all chats together. Zero means no limit.
type SenderQuota struct {
	Bytes   int64
	Entries int

	BytesKey, EntriesKey string // the settings that raise the limits, for hints

	Owner corebot.OwnersChannel // its senders have no limit
}

// SenderFiles charge each sender with what his turns make the folders of chats grow by, and keep that within a quota.
// Senders without an id are charged as the chat. Admins of the chat, and the owner's channel, have no limit and are not
// charged.
//
// A folder is used by one call at a time, and one call of a sender writes at a time, so that no two use the same room.
// Programs are an exception: they run beside other calls of the sender, and are measured once they have ended.
type SenderFiles struct {
	charges FileCharges
	roles   Roles
	quota   SenderQuota
	log     zerolog.Logger

	mu     sync.Mutex
	roots  map[string]*rootfs.Root  // the workspaces, by agent
	busy   map[string]chan struct{} // what is in use; closed when it is not any more
	looked map[string]time.Time     // when the folders of a sender were last looked at
}

// NewSenderFiles gives nil where nothing has a limit: then nobody is charged.
func NewSenderFiles(c FileCharges, r Roles, q SenderQuota, log zerolog.Logger) *SenderFiles {
	if q.Bytes == 0 && q.Entries == 0 {
		return nil
	}
	return &SenderFiles{
		charges: c, roles: r, quota: q, log: log,
		roots: map[string]*rootfs.Root{}, busy: map[string]chan struct{}{}, looked: map[string]time.Time{},
	}
}

// Have tells of the workspace of an agent. It comes before the agent's first call.
func (s *SenderFiles) Have(agent string, workspace *rootfs.Root) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots[agent] = workspace
}

// rootOf is the workspace in which a chat has its folder; nil if its agent is not here.
func (s *SenderFiles) rootOf(k corebot.Key) *rootfs.Root {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots[k.Agent]
}

// Use has do change files of the caller's chat on account of him. Alone, no other call of his does so meanwhile.
func (s *SenderFiles) Use(ctx context.Context, who corebot.Caller, alone bool, do func(context.Context) error) error {
	u, err := s.begin(ctx, who, alone)
	if err != nil {
		return err
	}
	defer u.end(ctx)
	return do(ctx)
}

const (
	// folders of a sender are measured that often, for what others than tools have deleted there
	lookEvery     = time.Minute
	lookChats     = 200             // of his folders, the largest
	lookedKept    = 4_096           // senders of whom is known when that was
	settleFilesIn = 5 * time.Second // for the store to take a charge after the turn was cancelled
)

// fileUse is one use of a chat's folder. A nil one has no limit.
type fileUse struct {
	*SenderFiles
	root    *rootfs.Root
	who     corebot.Caller
	dir     string
	held    rootfs.Usage
	whole   bool
	release []func() // undone last first
}

func (s *SenderFiles) begin(ctx context.Context, who corebot.Caller, alone bool) (u *fileUse, err error) {
	if s == nil {
		return nil, nil
	}
	if limited, err := s.limited(ctx, who); err != nil || !limited {
		return nil, err
	}
	u = &fileUse{SenderFiles: s, root: s.rootOf(who.Key), who: who, dir: rootfs.ChatDir(who.Key)}
	defer func() {
		if err != nil {
			u.leave()
			u = nil
		}
	}()
	names := []string{u.dir}
	if alone {
		names = append(names, s.payer(who))
	}
	for _, name := range names {
		leave, err := s.enter(ctx, name)
		if err != nil {
			return u, fmt.Errorf("wait for another call that uses the files: %w", err)
		}
		u.release = append(u.release, leave)
	}
	if err := s.look(ctx, who); err != nil {
		return u, err
	}
	var measured error
	if u.held, u.whole, measured = u.root.Usage(u.dir); measured != nil || !u.whole {
		u.whole = false // the quota of the chat lets nothing grow in a folder that cannot be counted
		return u, nil
	}
	return u, u.share(ctx)
}

// limited says whether a quota holds for a caller. In a turn that has merged messages of others, all of them must be
// admins.
func (s *SenderFiles) limited(ctx context.Context, who corebot.Caller) (bool, error) {
	if s.quota.Owner.Is(who.Principal.Channel) {
		return false, nil
	}
	for _, p := range append([]corebot.Principal{who.Principal}, who.Others...) {
		role, err := s.roles.RoleOf(ctx, p, who.Key)
		if err != nil || role != corebot.RoleAdmin {
			return true, err
		}
	}
	return false, nil
}

// payer is who is charged.
func (s *SenderFiles) payer(who corebot.Caller) string {
	if who.Principal.ID == "" {
		return "the chat " + who.Key.String()
	}
	return who.Principal.String()
}

// share has the folder grow no further than the sender's room in all folders.
func (u *fileUse) share(ctx context.Context) error {
	sum, err := u.charges.Sum(ctx, u.who.Principal, u.who.Key)
	if err != nil {
		return err
	}
	q := u.quota
	release, err := u.root.SetShare(u.dir, rootfs.Share{
		Who: u.payer(u.who), Bytes: q.Bytes, Entries: q.Entries, BytesKey: q.BytesKey, EntriesKey: q.EntriesKey,
		Charged: rootfs.Usage{Bytes: sum.Bytes, Entries: int(sum.Entries)}, Held: u.held,
	})
	if err == nil {
		u.release = append(u.release, release)
	}
	return err
}

// end charges the sender with what the folder has grown by. If the charge cannot be stored, the log says so, and nobody
// is charged.
func (u *fileUse) end(ctx context.Context) {
	if u == nil {
		return
	}
	defer u.leave()
	if !u.whole {
		return
	}
	if err := u.settle(ctx, u.who.Key, u.who.Principal, u.held); err != nil {
		u.log.Warn().Err(err).Str("sender", u.payer(u.who)).Str("chat", u.who.Key.String()).
			Msg("what a call's files take was not charged to its sender")
	}
}

func (u *fileUse) leave() {
	for i := len(u.release) - 1; i >= 0; i-- {
		u.release[i]()
	}
}

// settle measures a folder that held so much, and has the charges say what it holds now.
func (s *SenderFiles) settle(ctx context.Context, k corebot.Key, p corebot.Principal, held rootfs.Usage) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleFilesIn)
	defer stop()
	now, whole, err := s.rootOf(k).Usage(rootfs.ChatDir(k))
	if err != nil || !whole || now == held {
		return err
	}
	return s.charges.Charge(ctx, k, p, fileSum(held), fileSum(now))
}

func fileSum(u rootfs.Usage) corebot.FileSum {
	return corebot.FileSum{Bytes: u.Bytes, Entries: int64(u.Entries)}
}

// look measures the folders in which a sender has files, now and then: what people deleted there by hand is charged to
// nobody any more. The caller has entered the caller's own folder. Others that are in use are left out.
func (s *SenderFiles) look(ctx context.Context, who corebot.Caller) error {
	if !s.lookNow(s.payer(who)) {
		return nil
	}
	chats := []corebot.Key{who.Key}
	if who.Principal.ID != "" {
		var err error
		if chats, err = s.charges.Chats(ctx, who.Principal, lookChats); err != nil {
			return err
		}
	}
	for _, k := range chats {
		if err := s.recount(ctx, k, k == who.Key); err != nil {
			return err
		}
	}
	return nil
}

func (s *SenderFiles) lookNow(payer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked[payer]) < lookEvery {
		return false
	}
	if len(s.looked) >= lookedKept {
		clear(s.looked)
	}
	s.looked[payer] = time.Now()
	return true
}

// recount has the charges of a folder say what it holds. One that cannot be measured stays charged as it is.
func (s *SenderFiles) recount(ctx context.Context, k corebot.Key, entered bool) error {
	root, dir := s.rootOf(k), rootfs.ChatDir(k)
	if root == nil {
		return nil
	}
	if !entered {
		leave, ok := s.tryEnter(dir)
		if !ok {
			return nil
		}
		defer leave()
	}
	root.Changed(dir)
	holds, whole, err := root.Usage(dir)
	if err != nil || !whole {
		return nil
	}
	recorded, err := s.charges.Recorded(ctx, k)
	if err != nil || recorded == fileSum(holds) {
		return err
	}
	return s.charges.Charge(ctx, k, corebot.Principal{}, fileSum(holds), fileSum(holds))
}

// enter waits until nobody else uses something that has a name.
func (s *SenderFiles) enter(ctx context.Context, name string) (leave func(), err error) {
	for {
		leave, free := s.tryOrWait(name)
		if free == nil {
			return leave, nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *SenderFiles) tryEnter(name string) (leave func(), ok bool) {
	leave, free := s.tryOrWait(name)
	return leave, free == nil
}

func (s *SenderFiles) tryOrWait(name string) (leave func(), free <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if used, ok := s.busy[name]; ok {
		return nil, used
	}
	done := make(chan struct{})
	s.busy[name] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, name)
		close(done)
	}, nil
}
