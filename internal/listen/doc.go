// Package listen has the checks in front of every HTTP listener of Corebot, before a request is looked at. One caps the
// connections. The other keeps web pages in somebody's browser away.
//
// No listener of Corebot has pages for browsers, or answers across origins. None reads a header that says from where a
// request was forwarded (Forwarded, X-Forwarded-For and their kin).
package listen
