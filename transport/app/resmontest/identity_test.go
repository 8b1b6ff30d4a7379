package resmontest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// identityOf decodes what stands beside an answer.
func identityOf(t *testing.T, r reply) object {
	t.Helper()
	id, _ := r.object(t)["identity"].(object)
	return id
}

func TestIdentityStandsBesideHealthAndExecution(t *testing.T) {
	f := Run(t, Options{Data: Small})
	for _, path := range []string{"/api/health", "/api/executions/1"} {
		id := identityOf(t, get(t, f, path))
		if len(id) != 5 || id["runtime_id"] != f.RuntimeID() || !canonical(f.RuntimeID()) || id["corpus_id"] != nil || id["build_id"] != nil {
			t.Errorf("%s: identity %v, want the five fields of %s", path, id, f.RuntimeID())
		}
	}
}

func TestExpectedRuntimeIsCheckedBeforeAnythingIsLookedUp(t *testing.T) {
	f := Run(t, Options{Data: Small})
	own, other := f.RuntimeID(), uuid.NewString()
	tests := []struct {
		name, given string
		status      int // of health and of an execution that exists
		absent      int // of an execution that does not
	}{
		{"its own", own, 200, 404},
		{"another", other, 409, 409},
		{"empty", "", 422, 422},
		{"capitals", strings.ToUpper(other), 422, 422},
		{"without hyphens", strings.ReplaceAll(other, "-", ""), 422, 422},
		{"in braces", "{" + other + "}", 422, 422},
		{"another version", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 422, 422},
		{"another variant", "6ba7b810-9dad-41d1-c0b4-00c04fd430c8", 422, 422},
		{"no id", "x", 422, 422},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			query := "?expected_runtime_id=" + url.QueryEscape(tt.given)
			for path, want := range map[string]int{"/api/health": tt.status, "/api/executions/1": tt.status, "/api/executions/999999": tt.absent} {
				got := get(t, f, path+query)
				if got.status != want {
					t.Fatalf("%s: %d, want %d: %s", path, got.status, want, got.body)
				}
				switch want {
				case 422:
					if _, is := got.object(t)["detail"].(string); !is {
						t.Errorf("%s: detail is no sentence: %s", path, got.body)
					}
				case 409:
					d := got.object(t)["detail"].(object)
					if d["code"] != "instance_mismatch" || d["expected_runtime_id"] != other || d["actual_runtime_id"] != own || d["message"] == "" || len(d) != 4 {
						t.Errorf("%s: detail %v", path, d)
					}
				}
			}
			if got := get(t, f, "/api/routines/1"+query); got.status != 200 {
				t.Errorf("another route looks at it: %d", got.status)
			}
		})
	}
}

func TestOwnIdentityIsValid(t *testing.T) {
	f := Run(t, Options{Data: Small})
	if id := identityOf(t, get(t, f, "/api/health")); !validIdentity(id) {
		t.Errorf("identity %v is not valid", id)
	}
}

func TestIdentityFaultsAnswerWithoutAComplaint(t *testing.T) {
	f := Run(t, Options{Data: Small})
	other := uuid.NewString()
	bound := "?expected_runtime_id=" + f.RuntimeID()
	t.Run("wrong", func(t *testing.T) {
		defer f.Clear()
		f.Inject(WrongIdentity(other), Scope{})
		for _, path := range []string{"/api/health", "/api/executions/1"} {
			if id := identityOf(t, must(t, f, "GET", path+bound, "")); id["runtime_id"] != other {
				t.Errorf("%s: identity %v, want %s", path, id, other)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		defer f.Clear()
		f.Inject(MissingIdentity(), Scope{})
		for _, path := range []string{"/api/health", "/api/executions/1"} {
			if o := must(t, f, "GET", path+bound, "").object(t); o["identity"] != nil || o["status"] == nil {
				t.Errorf("%s: %v", path, o)
			}
		}
	})
	t.Run("swapped", func(t *testing.T) {
		defer f.Clear()
		f.Inject(IdentitySwap(other), Scope{})
		if id := identityOf(t, must(t, f, "GET", "/api/health"+bound, "")); id["runtime_id"] != f.RuntimeID() {
			t.Errorf("health says %v", id)
		}
		if id := identityOf(t, must(t, f, "GET", "/api/executions/1"+bound, "")); id["runtime_id"] != other {
			t.Errorf("the execution says %v", id)
		}
	})
	for name, fault := range BadIdentities() {
		t.Run("bad "+name, func(t *testing.T) {
			defer f.Clear()
			f.Inject(fault, Scope{})
			id := identityOf(t, must(t, f, "GET", "/api/health"+bound, ""))
			if id == nil || validIdentity(id) {
				t.Errorf("identity %v is valid", id)
			}
		})
	}
}

// validIdentity is the rule of the contract, said once more: five fields.
func validIdentity(id object) bool {
	number := func(key string) (string, bool) {
		n, is := id[key].(interface{ String() string })
		if !is {
			return "", false
		}
		return n.String(), !strings.ContainsAny(n.String(), ".eE")
	}
	version, isNumber := number("contract_version")
	runtime, _ := id["runtime_id"].(string)
	schema, there := id["schema_version"]
	_, isInteger := number("schema_version")
	corpus, hasCorpus := id["corpus_id"]
	build, hasBuild := id["build_id"]
	return isNumber && version == "1" && canonical(runtime) && there && (schema == nil || isInteger) && hasCorpus && corpus == nil && hasBuild && build == nil
}
