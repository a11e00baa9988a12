// Package console has the pages with which the owner of a home looks at Corebot and works with it in a browser. They
// are on the listener of the HTTP API, and every page also answers in JSON.
//
// What callers may rely on:
//   - Nothing is shown before a login. A login address works once, for ten minutes. Its code never stands in the
//     address of a request. The session is a cookie that scripts cannot read and that no other site can send.
//   - Whoever is logged in is the owner of the home, and admin as at its terminal. The audit trail names the console.
//   - A page is whole without JavaScript, and so is every form. Scripts only keep a page fresh.
//   - No text of a chat, a tool, a file or a name is ever markup: templates escape all of it, and Markdown becomes
//     elements of a fixed list. The browser is told to run and to load nothing but what this package embeds.
//   - A list comes in pages. A long text is cut, and has a page of its own.
//   - A stream of a chat names its place. A browser that connects again with that place is shown nothing twice and
//     misses nothing that was committed.
//
// Bounds: a form has at most 1 MiB, a page at most [pageRows] rows, and a text of a page at most [shownText] bytes.
package console
