package channels_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels"
)

func TestACertificateThatIsNotTrustedHasAHintThatMendsIt(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = nil
	known := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for name, c := range map[string]struct {
		config *tls.Config
		says   string
	}{
		"an unknown authority": {&tls.Config{ServerName: "example.com"}, "SSL_CERT_FILE"},
		"another name":         {&tls.Config{ServerName: "other.test", RootCAs: known}, "another name"},
	} {
		d := tls.Dialer{Config: c.config}
		_, err := d.DialContext(context.Background(), "tcp", s.Listener.Addr().String())
		if hint := channels.TLSHint(err, "otherwise"); err == nil || !strings.Contains(hint, c.says) {
			t.Errorf("%s: %v has the hint %q", name, err, hint)
		}
	}
	if hint := channels.TLSHint(context.Canceled, "otherwise"); hint != "otherwise" {
		t.Errorf("the hint is %q", hint)
	}
}
