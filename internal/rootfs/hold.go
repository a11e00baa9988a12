package rootfs

// Hold keeps everybody from a file who writes through this Root, until release is called: for a change that another process makes to it. Readers see
// the old file or the new one all the while. What its folder holds is measured afterwards. Release it soon: who waits for it cannot be told to stop.
func (r *Root) Hold(path string) (release func(), err error) {
	clean, err := Clean(path)
	if err != nil {
		return nil, err
	}
	mu := r.lock(clean)
	mu.Lock()
	return func() {
		r.Changed(clean)
		mu.Unlock()
	}, nil
}
