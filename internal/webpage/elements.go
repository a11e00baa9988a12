package webpage

import "strings"

// set is a set of names of elements.
type set map[string]bool

func names(list string) set {
	s := set{}
	for _, name := range strings.Fields(list) {
		s[name] = true
	}
	return s
}

var (
	// void elements have no content and no end.
	void = names("area base br col embed hr img input link meta param source track wbr")
	// dropped with all that is in them: what is not shown, and what is no text.
	dropped = names("script style noscript template svg math iframe frame frameset noframes noembed object applet " +
		"embed canvas audio video map " +
		"select option optgroup datalist textarea button input dialog link param source track area base basefont " +
		"bgsound plaintext")
	// inline elements are opened and closed within a line of text.
	inline = names("a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp small " +
		"span strike strong sub sup time tt u var")
	// scopes keep what is in them to themselves: an end tag inside does not close what is outside.
	scopes = names("td th caption table")
	// blocks end the paragraph before them.
	blocks = names("address article aside blockquote center details div dl dd dt fieldset figcaption figure footer " +
		"form h1 h2 h3 h4 h5 h6 header hgroup hr " +
		"li main menu nav ol p pre section summary table ul")
	// nesting elements are written at the beginning of each of their lines, so that every one makes all text in it
	// longer.
	nesting = names("blockquote ul ol menu dl")
	// kept attributes of elements that stay. A colspan is not: it makes a large table of a few words.
	kept = names("href src alt title class id role rel itemprop property name content start lang dir datetime")
)

// implied says which open elements end where an element begins without their end tags, and which stop the search for
// them.
type implied struct{ ends, within set }

var impliedEnds = map[string]implied{
	"li":    {names("li"), names("ul ol menu")},
	"dt":    {names("dt dd"), names("dl")},
	"dd":    {names("dt dd"), names("dl")},
	"tr":    {names("tr caption colgroup"), names("table")},
	"td":    {names("td th"), names("tr table")},
	"th":    {names("td th"), names("tr table")},
	"thead": {names("thead tbody tfoot caption colgroup"), names("table")},
	"tbody": {names("thead tbody tfoot caption colgroup"), names("table")},
	"tfoot": {names("thead tbody tfoot caption colgroup"), names("table")},
}
