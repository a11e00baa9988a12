package platform

import (
	"net/http"
	"path"
	"sync"
)

// Files are what people have sent, for a bot that fetches it. The zero value has none.
type Files struct {
	mu    sync.Mutex
	files map[string]File
}

// File is one of them, and how it is given.
type File struct {
	ID, Name, MediaType string
	Size                int64  // as the platform says beside the message; 0: it does not say
	Content             []byte // what it is, and all of the answer unless there is another
	Answer              func(w http.ResponseWriter)
}

// Put keeps a file.
func (s *Files) Put(f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]File{}
	}
	s.files[f.ID] = f
}

// Has says whether there is a file with an id.
func (s *Files) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.files[id]
	return has
}

// Give answers a request whose path ends with the id of a file, and says whether it did.
func (s *Files) Give(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	f, has := s.files[path.Base(r.URL.Path)]
	s.mu.Unlock()
	switch {
	case !has:
		return false
	case f.Answer != nil:
		f.Answer(w)
	default:
		_, _ = w.Write(f.Content) // a bot that hangs up has seen enough
	}
	return true
}
