package slack

// MaxFetched is how many messages of a channel tests fetch.
const MaxFetched = 4 * pageSize

func init() { maxPages = MaxFetched / pageSize }
