package listen

import (
	"net/http"
	"strings"
)

// all are the methods that a route of Corebot can have, in the order in which Allow lists them.
var all = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// Methods gives what Allow says of the path of a request: the methods that a mux serves there, such as "GET, HEAD".
// HEAD is among them wherever GET is. Empty: the mux serves the path with no method.
func Methods(mux *http.ServeMux, r *http.Request) string {
	var served []string
	for _, method := range all {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "" {
			served = append(served, method)
		}
	}
	return strings.Join(served, ", ")
}
