package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(cmd *cobra.Command, err error) error {
	if rest, is := strings.CutPrefix(err.Error(), corebot.ErrInvalid.Error()+": "); is {
		if name, _, _ := strings.Cut(rest, " "); cmd.Flags().Lookup(name) != nil {
			for _, other := range []string{"older-than", "newer-than", "since"} { // beside the flag that says the same
				rest = strings.Replace(rest, " as "+other+":", " as --"+other+":", 1)
			}
			err = &ofFlag{"--" + rest, err}
		}
	}
	return &usageError{corebot.WithHint(err, fmt.Sprintf("see %q", cmd.CommandPath()+" --help"))}
}

// usageWithHint is [usage] for an error whose hint says what to write.
func usageWithHint(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// ofFlag is an error of an operation about a value that a flag gave. An operation has no flags, and so no dashes.
type ofFlag struct {
	text string
	error
}

func (e *ofFlag) Error() string { return e.text }
func (e *ofFlag) Unwrap() error { return e.error }

// takes checks the arguments of a command and names what is missing. The last name may end in "...": one or more. Or it
// stands in brackets: none or one.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...")
		least := len(names)
		if least > 0 && strings.HasPrefix(names[least-1], "[") {
			least--
		}
		switch {
		case len(args) < least:
			return usage(cmd, fmt.Errorf("%s is missing", strings.TrimSuffix(names[len(args)], "...")))
		case len(args) > len(names) && !many:
			return usage(cmd, fmt.Errorf("%q takes no argument %q", cmd.CommandPath(), args[len(names)]))
		}
		for i, arg := range args { // such as by a variable that a script did not set
			if name := strings.Trim(names[min(i, len(names)-1)], "[.]"); arg == "" && name != "TEXT" {
				return usage(cmd, fmt.Errorf("%s is empty", name))
			}
		}
		return nil
	}
}

// maybe is takes for one argument that can be left out.
func maybe(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return takes(name)(cmd, args)
	}
}

// group makes a command that is nothing but the name of others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// knownCommand refuses whatever follows the name of a group and is none of its commands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%q has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return &usageError{corebot.WithHint(err, fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near[0]))}
	}
	for _, other := range cmd.Root().Commands() { // such as "corebot waits resume"
		if other.Name() == args[0] && cmd.HasParent() {
			return &usageError{corebot.WithHint(err, fmt.Sprintf("did you mean %q?", other.CommandPath()))}
		}
	}
	return usage(cmd, err)
}

// completesNoFiles has shells offer no names of files where a command takes none. Cobra offers them for every argument.
func completesNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && !takesFiles(cmd) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, c := range cmd.Commands() {
		completesNoFiles(c)
	}
}

// takesFiles says whether an argument of a command is the name of a file.
func takesFiles(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"DIR", "FILE", "SOURCE"}, func(name string) bool {
		return strings.Contains(cmd.Use, name)
	})
}

// flagError says in plain words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usage(cmd, err)
	}
	if !utf8.ValidString(invalid.GetValue()) {
		return notUTF8("--" + invalid.GetFlag().Name)
	}
	want := map[string]string{
		"int": "a whole number", "number": "a whole number, at least 1",
		"bool": "true or false", "float64": "a number", "duration": "a time such as 90s, 30m or 24h",
		"int64": "a whole number", "string": "a text that is not empty",
		"stringSlice": "texts with commas between them", "intSlice": "whole numbers with commas between them",
	}[invalid.GetFlag().Value.Type()]
	return usage(cmd, fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want))
}

// filledFlag is a flag for a text that cannot be given as empty, such as by a variable that a script did not set.
func filledFlag(flags *pflag.FlagSet, to *string, name, text string) {
	flags.Var((*filled)(to), name, text)
}

// filled is the value of such a flag.
type filled string

func (f *filled) Type() string   { return "string" }
func (f *filled) String() string { return string(*f) }

func (f *filled) Set(s string) error {
	if s == "" {
		return corebot.ErrInvalid // flagError says what is wanted
	}
	*f = filled(s)
	return nil
}

// refusesEmpty makes a [filledFlag] of each flag for a text that has no default, and of each flag for texts. As a
// filter, an empty text would widen what a command does.
func refusesEmpty(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		text := f.Value.Type() == "string" && f.DefValue == "" && f.Name != "resume" // which says it in its own words
		if text || f.Value.Type() == "stringSlice" {
			f.Value = notEmpty{f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		refusesEmpty(c)
	}
}

type notEmpty struct{ pflag.Value }

func (n notEmpty) Set(s string) error {
	if s == "" {
		return corebot.ErrInvalid // flagError says what is wanted
	}
	return n.Value.Set(s)
}

// paths are the flags for names of files of this machine, which can have any bytes.
var paths = []string{"home", "heads", "key", "file", "out", "dir", "cpuprofile", "key-file", "in"}

// refusesBytes has every command refuse text that is not UTF-8: on the way to a running Corebot, JSON would replace
// bytes of it. A name of a file can have any bytes.
func refusesBytes(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(paths, f.Name) {
			f.Value = inUTF8{f.Value}
		}
	})
	if check := cmd.Args; check != nil && !takesFiles(cmd) {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			for i, arg := range args {
				if !utf8.ValidString(arg) {
					return notUTF8(fmt.Sprintf("argument %d of %q", i+1, cmd.CommandPath()))
				}
			}
			return check(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		refusesBytes(c)
	}
}

func notUTF8(what string) error {
	return usageWithHint(corebot.WithHint(fmt.Errorf("%s is not UTF-8 text", what),
		"see which character set the terminal, or the script, uses"))
}

type inUTF8 struct{ pflag.Value }

func (u inUTF8) Set(s string) error {
	if !utf8.ValidString(s) {
		return corebot.ErrInvalid // flagError says what is wrong
	}
	return u.Value.Set(s)
}

// numberFlag is a flag for a whole number from 1.
func numberFlag(cmd *cobra.Command, to *int, name string, standard int, text string) {
	*to = standard
	cmd.Flags().Var((*number)(to), name, text)
}

// limitFlag is the flag of a list that says how long it may be.
func limitFlag(cmd *cobra.Command, to *int, standard int, text string) {
	numberFlag(cmd, to, "limit", standard, text)
}

// number is the value of such a flag.
type number int

func (n *number) Type() string   { return "number" }
func (n *number) String() string { return strconv.Itoa(int(*n)) }

func (n *number) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 {
		return corebot.ErrInvalid // flagError says what is wanted
	}
	*n = number(v)
	return nil
}

// newHelp is "corebot help COMMAND"; unlike the library's own it refuses a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return knownCommand(target, rest)
			}
			return target.Help()
		},
	}
}

func newUsage(s *shell) *cobra.Command {
	var asJSON bool
	var days, limit int
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Print what models used, by day, chat, sender and model",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			accounting, err := s.accounting()
			if err != nil {
				return err
			}
			now := time.Now()
			first, last := accounting.Day(now.AddDate(0, 0, 1-min(days, mostDays))), accounting.Day(now)
			_, err = useTable(accounting).print(cmd, asJSON, limit,
				func(p operate.Part) (operate.Page[corebot.UsageRow], error) {
					return look(s, cmd, operate.ListUsage, operate.UsageQuery{From: first, To: last, Part: p})
				})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	numberFlag(cmd, &days, "days", 1, "so many days, today included")
	limitFlag(cmd, &limit, 1000, "at most this many rows, the newest days first")
	return cmd
}

// mostDays is more days than a home has. Dates of many more do not exist.
const mostDays = 100 * 366

// accounting is how this home books usage.
func (s *shell) accounting() (corebot.Accounting, error) {
	c, err := s.settings()
	if err != nil {
		return corebot.Accounting{}, err
	}
	return c.Accounting()
}

// useTable prints what was used, and the sum of it below.
func useTable(a corebot.Accounting) listing[corebot.UsageRow] {
	var all corebot.UsageTotals
	return listing[corebot.UsageRow]{
		header: "DAY\tCHAT\tSENDER\tMODEL\tTURNS\tUSED",
		none:   "nothing was used",
		cells: func(row corebot.UsageRow) string {
			all = all.Add(row.UsageTotals)
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", row.Day, row.Chat, oneLine(row.Principal.ID, 30),
				oneLine(row.Model, 40), row.Turns, a.Describe(row.UsageTotals))
		},
		foot: func() string { return fmt.Sprintf("\t\t\t\t%d\t%s", all.Turns, a.Describe(all)) },
	}
}
