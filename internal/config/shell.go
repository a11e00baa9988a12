package config

import "time"

// Shell is which programs the tool shell.exec may run.
type Shell struct {
	Enabled bool          `mapstructure:"enabled" doc:"let admins run programs"`
	Allow   List[string]  `mapstructure:"allow" doc:"which ones: names, looked up once at the start, or absolute paths; an empty list is none. A program may execute nothing but itself; one whose purpose that is, such as git, sh or python3, is refused unless it is written as unsafe:NAME, and then may start every program of the system. Behind a name, with spaces between, may stand what its arguments must be: each as it is; text* for all that begin so; * for one, ** at the end for any number, that are not empty and do not begin with -. Several such entries for one program: one of them must fit"`
	Timeout time.Duration `mapstructure:"timeout" min:"1s" doc:"how long a program may take; then it is killed with all that it started"`
}

func defaultShell() Shell { return Shell{Timeout: time.Minute} }

// Isolation is how the worker processes are kept in which programs run.
type Isolation struct {
	Tools      List[string] `mapstructure:"tools" oneof:"fs.edit,fs.list,fs.read,fs.write,web.fetch" doc:"which tools do their work in a worker process too, beside shell.exec, which always does; docs/isolation.md says what that costs"`
	MaxWorkers int          `mapstructure:"max_workers" min:"1" doc:"at once; further calls wait until their deadline"`
	UID        int          `mapstructure:"uid" min:"1" doc:"who programs run as, user and group, where Corebot is root; nothing else may belong to that user"`
	Readable   List[string] `mapstructure:"readable" doc:"directories that programs may read beside the system's, such as /opt/tools; never what holds the home"`
}

func defaultIsolation() Isolation { return Isolation{MaxWorkers: 4, UID: 65534} }
