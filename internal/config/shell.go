package config

import "time"

// Shell is which programs the tool shell.exec may run.
type Shell struct {
	Enabled bool          `mapstructure:"enabled" doc:"let admins run programs"`
	Allow   List[string]  `mapstructure:"allow" doc:"which ones: names, looked up once at the start, or absolute paths; an empty list is none. A program may execute nothing but itself; one whose purpose that is, such as git, sh or python3, is refused unless it is written as unsafe:NAME, and then may start every program of the system"`
	Timeout time.Duration `mapstructure:"timeout" min:"1s" doc:"how long a program may take; then it is killed with all that it started"`
}

func defaultShell() Shell { return Shell{Timeout: time.Minute} }

// Isolation is how the worker processes are kept in which programs run.
type Isolation struct {
	MaxWorkers int          `mapstructure:"max_workers" min:"1" doc:"at once; further calls wait until their deadline"`
	UID        int          `mapstructure:"uid" min:"1" doc:"who programs run as, user and group, where Corebot is root; nothing else may belong to that user"`
	Readable   List[string] `mapstructure:"readable" doc:"directories that programs may read beside the system's, such as /opt/tools; never what holds the home"`
}

func defaultIsolation() Isolation { return Isolation{MaxWorkers: 4, UID: 65534} }
