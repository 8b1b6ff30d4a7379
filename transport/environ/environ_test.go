package environ

import (
	"slices"
	"strings"
	"testing"
)

func TestAProgramGetsWhatItsListNames(t *testing.T) {
	environ := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "https_proxy=p", "SSL_CERT_FILE=f", "GIT_AUTHOR_NAME=a",
		"SSH_AUTH_SOCK=s", "SSH_AGENT_PID=1", "GIT_SSH=x", "GIT_SSH_COMMAND=x", "GIT_SSL_CAINFO=x",
		"GIT_DIR=/evil", "GIT_CONFIG_COUNT=1", "GIT_EXTERNAL_DIFF=x", "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "GITHUB_TOKEN=k", "AWS_SECRET_ACCESS_KEY=k",
		"BERTH_API_KEY=k", "BERTH_SSH=k", "ARMADA_MCP_TOKEN=k", "LISTED_ONE=yes", "=x", "none"}
	all := []string{"PATH", "HOME", "LC_ALL", "XDG_RUNTIME_DIR", "https_proxy", "SSL_CERT_FILE", "GIT_AUTHOR_NAME"}
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"an agent", Agent(environ, nil), all},
		{"an agent, of an operator's names", Agent(environ, []string{"LISTED_*", "BERTH_*", "ARMADA_MCP_TOKEN", "["}), append(slices.Clone(all), "LISTED_ONE")},
		{"git", Git(environ), append(slices.Clone(all), "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO")},
	} {
		names := []string{}
		for _, entry := range tt.got {
			name, _, _ := strings.Cut(entry, "=")
			names = append(names, name)
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s gets %q, want %q", tt.name, names, tt.want)
		}
	}
}
