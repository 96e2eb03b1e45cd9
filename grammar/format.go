package grammar

// Formats of strings, as regular expressions that the whole string matches; "" is any string.
const (
	date   = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`
	leap   = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	moment = `(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?` + zone + `|23:59:60(?:\.\d+)?(?:[zZ]|[+-]00:00))` // a leap second only in UTC
	zone   = `(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	octet  = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4   = `(?:` + octet + `\.){3}` + octet
	h16    = `[0-9a-fA-F]{1,4}`
	ls32   = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	ipv6   = `(?:(?:` + h16 + `:){6}` + ls32 + `|::(?:` + h16 + `:){5}` + ls32 + `|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:){0,1}` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 + `|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 + `|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 + `|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::)`
	label    = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	hostname = label + `(?:\.` + label + `)*`
	atom     = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
	email    = `(?:` + atom + `(?:\.` + atom + `)*|"(?:[ !#-\[\]-~]|\\[ -~])*")@(?:` + hostname + `|\[` + ipv4 + `\]|\[IPv6:` + ipv6 + `\])`
	escaped  = `%[0-9a-fA-F]{2}`
	pchar    = `(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|` + escaped + `)`
	userinfo = `(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|` + escaped + `)*`
	host     = `(?:\[(?:` + ipv6 + `|[vV][0-9a-fA-F]+\.[a-zA-Z0-9._~!$&'()*+,;=:-]+)\]|(?:[a-zA-Z0-9._~!$&'()*+,;=-]|` + escaped + `)*)`
	uriTail  = `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
	absPath  = `/(?:` + pchar + `+(?:/` + pchar + `*)*)?`
	netPath  = `//(?:` + userinfo + `@)?` + host + `(?::\d*)?(?:/` + pchar + `*)*`
	uri      = `[a-zA-Z][a-zA-Z0-9+.-]*:(?:` + netPath + `|` + absPath + `|` + pchar + `+(?:/` + pchar + `*)*|)` + uriTail
	noColon  = `(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|` + escaped + `)+`
	relative = `(?:` + netPath + `|` + absPath + `|` + noColon + `(?:/` + pchar + `*)*|)` + uriTail
	clocks   = `T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
	duration = `P(?:(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:` + clocks + `)?|` + clocks + `|\d+W)`
	pointer  = `(?:/(?:[^~/]|~[01])*)*`
)

// formats are the formats of strings that are obeyed.
var formats = map[string]string{
	"date-time":     date + `[tT]` + moment, // RFC 3339
	"date":          date,
	"time":          moment,
	"duration":      duration,                                    // RFC 3339, appendix A
	"email":         email,                                       // RFC 5321, section 4.1.2
	"hostname":      `(?=.{1,253}$)(?!(?:.*\.)?..--)` + hostname, // RFC 1123; without labels in Punycode
	"ipv4":          ipv4,
	"ipv6":          ipv6,                                                   // RFC 4291, section 2.2
	"uuid":          `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`, // RFC 4122
	"uri":           uri,                                                    // RFC 3986
	"uri-reference": `(?:` + uri + `|` + relative + `)`,
	"json-pointer":  pointer, // RFC 6901

	"relative-json-pointer": `(?:0|[1-9]\d*)(?:#|` + pointer + `)`,

	"byte":     "", // hints of OpenAPI, which limit nothing
	"binary":   "",
	"password": "",
	"unknown":  "",
}
