package mail

import "time"

// A copy that never comes costs the tests this long, once for each mail that is looked for.
func init() { arrives = 1500 * time.Millisecond }

// Arrives is how long the tests wait for a copy.
func Arrives() time.Duration { return arrives }
