package shape

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestRedactHidesCredentials(t *testing.T) {
	const s = "hunter2hunter2" // what must not be left
	tests := []struct{ name, in, want string }{
		{"plain text stays", "cannot open /srv/a.db: no such file (code 14)", "cannot open /srv/a.db: no such file (code 14)"},
		{"a short hash stays", "commit 3f2a91c0", "commit 3f2a91c0"},
		{"bearer", "GET /x Authorization: Bearer " + s + " 401", "GET /x Authorization: ***"},
		{"bearer alone", "sent bearer " + s + ", got 401", "sent bearer ***, got 401"},
		{"header in quotes", `curl -H 'Authorization: Basic ` + s + `' http://x/`, `curl -H 'Authorization: ***' http://x/`},
		{"header in JSON", `{"authorization":"Token ` + s + `","a":1}`, `{"authorization":"***","a":1}`},
		{"cookie", "Cookie: a=" + s + "; b=" + s, "Cookie: ***"},
		{"key=value", "password=" + s + " user=bob", "password=*** user=bob"},
		{"environment", "GITHUB_TOKEN=" + s, "GITHUB_TOKEN=***"},
		{"query", "http://h/p?api_key=" + s + "&a=1", "http://h/p?api_key=***&a=1"},
		{"colon", "client_secret: " + s, "client_secret: ***"},
		{"JSON", `{"apiKey": "` + s + ` with \" and space", "a": 1}`, `{"apiKey": "***", "a": 1}`},
		{"JSON in JSON", `{\"token\":\"` + s + `\",\"a\":1}`, `{\"token\":\"***\",\"a\":1}`},
		{"cut off JSON", `{"secret":"` + s, `{"secret":"***`},
		{"single quotes", `{'password': 'it is "` + s + `"'}`, `{'password': '***'}`},
		{"arrow", `"passwd" => "` + s + `"`, `"passwd" => "***"`},
		{"option", "tool --token " + s + " --depth 3", "tool --token *** --depth 3"},
		{"option=value", "tool --password=" + s, "tool --password=***"},
		{"named, then long", "using token abcdef0123456789abcdef0123", "using token ***"},
		{"userinfo", "postgres://bob:" + s + "@db:5432/x", "postgres://***@db:5432/x"},
		{"userinfo with an at sign", "https://bob:p@" + s + "@host/x", "https://***@host/x"},
		{"a scoped package is no userinfo", "https://registry.example/@scope/pkg", "https://registry.example/@scope/pkg"},
		{"known prefixes", "sk-abcdefgh12 ghp_abcdefgh1234 xoxb-12345678-ab AKIAABCDEFGHIJKLMNOP", "*** *** *** ***"},
		{"JWT", "got eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0", "got ***"},
		{"long random run", "id 0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX2yZ3 end", "id *** end"},
		{"PEM", "x\n-----BEGIN RSA PRIVATE KEY-----\n" + s + "\n-----END RSA PRIVATE KEY-----\ny", "x\n***\ny"},
		{"PEM without its end", "x\n-----BEGIN PRIVATE KEY-----\n" + s, "x\n***"},
		{"PEM without its beginning", "MIIEpAIBAAKCAQEA7\nMIIEpAIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----\ny", "***\ny"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Redact(tt.in)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if strings.Contains(got, s) {
				t.Error("the credential is still there")
			}
			checkRedact(t, tt.in)
		})
	}
}

func checkRedact(t testing.TB, in string) {
	out := Redact(in)
	if again := Redact(out); again != out {
		t.Fatalf("%q became %q, then %q", in, out, again)
	}
	if len(out) > 4*len(in) {
		t.Fatalf("%d bytes became %d", len(in), len(out))
	}
	if utf8.ValidString(in) && !utf8.ValidString(out) {
		t.Fatalf("%q became %q", in, out)
	}
}

// TestRulesWithoutTheirSignsFindNothing looks for every shape everywhere, which
// must find no more.
func TestRulesWithoutTheirSignsFindNothing(t *testing.T) {
	parts := []string{"token", "ToKen", "\u017Fecret", "to\u212Aen", "api-key", "Access_Key", "privateKEY", "session-key", "PASSWD", "pwd", "basic", "Bearer", "set-cookie", "authorization", "signature",
		"=", ": ", " ", "\"", "'", "\\\"", "=>", "--", "abcdefgh12345678abcdefgh", "hunter2", "sk-abcdefgh12", "xoxb-12345678", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJI.eyJzdWIi", "://", "u:p@h", "-----BEGIN A KEY-----", "-----END A KEY-----",
		"\n", "Aa0", strings.Repeat("Aa0_", 10), strings.Repeat("a", 39), "\xff"}
	everywhere := func(s string) string {
		for _, r := range rules {
			s = r.find.ReplaceAllString(s, r.with)
		}
		return regexp.MustCompile(`[A-Za-z0-9_+=-]{40,}`).ReplaceAllStringFunc(s, func(run string) string {
			if strings.ContainsAny(run, "0123456789") && strings.ContainsAny(run, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsAny(run, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				return mark
			}
			return run
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 8).Draw(rt, "parts"), "")
		if got, want := redactOnce(text), everywhere(text); got != want {
			rt.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"token=a", `"token":"a\"`, `\"token\":\"a\"`, "token token=x=y", "a://b@c@d", "Bearer Bearer abcd", "--token --token x", "cookie:cookie=1", "-----BEGIN A-----", "password is password is aaaaaaaaaaaaaaaaaaaaaaaa", "token='a\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) { checkRedact(t, in) })
}
