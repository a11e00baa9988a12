package telegram

import "time"

// Watch has the account look after its webhook as often as that.
func (c *Channel) Watch(every time.Duration) { c.hook.watch = every }

// SecretHeader is where the platform sends the secret of a webhook.
const SecretHeader = secretHeader
