package httpapi

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/strictjson"
)

// route is one path and method of the API.
type route struct {
	method, path string
	scope        corebot.Scope
	also         corebot.Scope // a second scope that opens it; the handler says how far
	summary      string
	in, out      reflect.Type // of the request and of the result
	serve        func(*call) (any, error)
}

// call is one request of a token.
type call struct {
	server  *Server
	request *http.Request
	writer  http.ResponseWriter
	token   corebot.Token
	gone    context.Context // ends when the caller has gone, and not with the time of a request
}

// service is the admin service, for changes by the token of the call.
func (c *call) service() *operate.Service {
	return c.server.opts.Service(corebot.AuditEvent{Entry: corebot.EntryToken, Principal: c.token.Principal()})
}

// get is a route that looks at something. The fields of In have the tag path or query.
func get[In, Out any](path, summary string, do func(*operate.Service, context.Context, In) (Out, error)) route {
	return newRoute(http.MethodGet, path, corebot.ScopeRead, summary, do)
}

// change is a route that changes something. A field of In with the tag body is the JSON of the request.
func change[In, Out any](method, path, summary string,
	do func(*operate.Service, context.Context, In) (Out, error),
) route {
	return newRoute(method, path, corebot.ScopeOperate, summary, do)
}

func newRoute[In, Out any](method, path string, scope corebot.Scope, summary string,
	do func(*operate.Service, context.Context, In) (Out, error),
) route {
	return ofCall(method, path, scope, summary, func(c *call, ctx context.Context, in In) (Out, error) {
		return do(c.service(), ctx, in)
	})
}

// ofCall is a route whose handler looks at the call itself.
func ofCall[In, Out any](method, path string, scope corebot.Scope, summary string,
	do func(*call, context.Context, In) (Out, error),
) route {
	return route{
		method: method, path: path, scope: scope, summary: summary,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		serve: func(c *call) (any, error) {
			var in In
			if err := c.bind(reflect.ValueOf(&in).Elem()); err != nil {
				return nil, err
			}
			return do(c, c.request.Context(), in)
		},
	}
}

// orScope has a route be open to a second scope, too.
func (r route) orScope(s corebot.Scope) route {
	r.also = s
	return r
}

// errMalformed is a request that the API cannot read.
var errMalformed = errors.New("the request cannot be read")

// errNotJSON is a body of another type.
var errNotJSON = errors.New("the body is not said to be JSON")

// errNoOwner refuses a task where nobody is known as whom it could run.
var errNoOwner = corebot.WithHint(fmt.Errorf("%w: this system does not tell who owns the home", corebot.ErrInvalid),
	"make the task in a chat, with /remind")

func malformed(hint, format string, args ...any) error {
	return corebot.WithHint(fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...)), hint)
}

// field is where a field of a request comes from.
type field struct {
	reflect.StructField
	from, name string // from is path, query or body
}

// fieldsOf are the fields of a request, those of embedded structs among them.
func fieldsOf(t reflect.Type) (all []field) {
	for _, f := range reflect.VisibleFields(t) {
		for _, from := range []string{"path", "query", "body"} {
			if name, tagged := f.Tag.Lookup(from); tagged {
				all = append(all, field{f, from, name})
			}
		}
	}
	return all
}

// setTag is the tag of a text that must be one of some values; the tag names them. leastTag is the tag of a number.
// Fields of a body with the value "refused" of emptyTag can be left out, and have no default for an empty text.
const (
	setTag   = "set"
	leastTag = "least"
	emptyTag = "empty"

	firstPage = "after" // the one parameter that can be empty: the cursor of the first page
)

// sets are the values of parameters that take no others. Operations refuse what is not among them.
func sets() map[string][]string {
	outcomes, states := []string{}, []string{}
	for _, o := range corebot.AuditOutcomes() {
		outcomes = append(outcomes, string(o))
	}
	for _, s := range corebot.TaskStates() {
		states = append(states, string(s))
	}
	return map[string][]string{
		"outcomes": outcomes, "states": states, "reasons": corebot.DeadReasons(), "views": {"simple", "full"},
		"sums": {"day", "chat", "model"},
	}
}

// least is the smallest value of a number. ok is false where there is none.
func (f field) least() (n int64, ok bool) {
	n, err := strconv.ParseInt(f.Tag.Get(leastTag), 10, 64)
	return n, err == nil
}

// check refuses a number that is too small.
func (f field) check(value reflect.Value) error {
	if least, ok := f.least(); ok && value.Int() < least {
		return fmt.Errorf("%w: %s is %d: want a whole number from %d", corebot.ErrInvalid, f.name, value.Int(), least)
	}
	return nil
}

// empty refuses a text without a letter: it comes from a variable that was not set, and would mean the default.
func empty(what string) error {
	return malformed("write a value, or leave it out", "%s is empty", what)
}

// filled refuses an empty text in a field of a body that has a default.
func filled(body []byte, t reflect.Type) error {
	var given map[string]json.RawMessage
	for f := range t.Fields() {
		if f.Tag.Get(emptyTag) == "" {
			continue
		}
		if given == nil {
			_ = json.Unmarshal(body, &given) // it was read before
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if string(given[name]) == `""` {
			return empty(name)
		}
	}
	return nil
}

// bind reads the values of a request into its type. A parameter that the route does not have is refused: a typo must
// not widen a filter.
func (c *call) bind(in reflect.Value) error {
	query := c.request.URL.Query()
	known := map[string]bool{}
	for _, f := range fieldsOf(in.Type()) {
		into := in.FieldByIndex(f.Index)
		switch f.from {
		case "path":
			if err := parse(into, f.name, c.request.PathValue(f.name)); err != nil {
				return err
			}
		case "query":
			known[f.name] = true
			values := query[f.name]
			if len(values) > 1 {
				return malformed("give it once", "the parameter %s stands there %d times", f.name, len(values))
			}
			if len(values) == 1 {
				if values[0] == "" && f.name != firstPage {
					return empty("the parameter " + f.name)
				}
				if err := parse(into, f.name, values[0]); err != nil {
					return err
				}
				if err := f.check(into); err != nil {
					return err
				}
			}
		case "body":
			if err := c.body(into.Addr().Interface()); err != nil {
				return err
			}
		}
	}
	for name := range query {
		if !known[name] {
			names := slices.Sorted(maps.Keys(known))
			return malformed("its parameters are: "+strings.Join(names, ", "), "there is no parameter %q",
				corebot.Plainly(name))
		}
	}
	return nil
}

// parse reads one value of a path or a query.
func parse(into reflect.Value, name, text string) (err error) {
	if u, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok { // such as time.Time
		if err = u.UnmarshalText([]byte(text)); err != nil {
			err = malformed("a moment is written as 2026-12-24T18:00:00Z", "%s is %q", name, corebot.Plainly(text))
		}
		return err
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		b, parsing := strconv.ParseBool(text)
		if parsing != nil {
			return malformed("want true or false", "%s is %q", name, corebot.Plainly(text))
		}
		into.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, parsing := strconv.ParseInt(text, 10, 64)
		if parsing != nil {
			return malformed("want a whole number", "%s is %q", name, corebot.Plainly(text))
		}
		into.SetInt(n)
	default:
		return fmt.Errorf("the API cannot read a %s", into.Type())
	}
	return nil
}

// body reads the JSON of a request.
func (c *call) body(into any) error {
	r := c.request
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return malformed("GET "+documentPath+" has the schema of the body", "the request has no body")
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return corebot.WithHint(errNotJSON, "send Content-Type: application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.writer, r.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return fmt.Errorf("the body: %w: the limit is %d bytes", corebot.ErrTooLarge, maxBodyBytes)
	}
	if err == nil {
		err = strictjson.Decode(text, maxBodyLevels, strictjson.Rules{}, into)
	}
	if err == nil {
		return filled(text, reflect.TypeOf(into).Elem())
	}
	if bad := (*strictjson.Error)(nil); errors.As(err, &bad) && bad.What == strictjson.Trailing {
		return malformed("send one object", "the body goes on behind its JSON")
	}
	return malformed("GET "+documentPath+" has the schema of the body", "the body: %v", err)
}
