package config

// Diff lists the keys whose values differ, in the order of [Config]: those that a running Corebot can apply, and those that need a
// restart.
func Diff(old, new Config) (reloadable, restart []string) {
	for _, l := range leaves() {
		switch {
		case l.in(old) == l.in(new):
		case l.reload:
			reloadable = append(reloadable, l.key)
		default:
			restart = append(restart, l.key)
		}
	}
	return reloadable, restart
}
