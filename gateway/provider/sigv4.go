package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// credentials sign requests to AWS:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type credentials struct{ id, secret, session, region, service string }

// sign adds the headers of a signature, version 4, of all headers that are there.
func (c *credentials) sign(r *http.Request, body []byte, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", stamp)
	if c.session != "" {
		r.Header.Set("X-Amz-Security-Token", c.session)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name, values := range r.Header {
		if len(values) > 0 {
			headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, canonicalPath(r.URL), r.URL.Query().Encode())
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.Join(strings.Fields(headers[name]), " "))
	}
	signed := strings.Join(names, ";")
	fmt.Fprintf(&canonical, "\n%s\n%x", signed, sha256.Sum256(body))
	scope := stamp[:8] + "/" + c.region + "/" + c.service + "/aws4_request"
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", stamp, scope, sha256.Sum256([]byte(canonical.String())))
	key := []byte("AWS4" + c.secret)
	for _, part := range []string{stamp[:8], c.region, c.service, "aws4_request", text} {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		c.id, scope, signed, hex.EncodeToString(key)))
}

// canonicalPath is the path as it is sent, with every part escaped once more.
func canonicalPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		return "/"
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}
