package o200k

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"
)

// TestMain shows first of all that a process which counts nothing loads nothing.
func TestMain(m *testing.M) {
	if Loaded() {
		println("the vocabulary is loaded before anything was counted")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestTheCodecIsMadeOnceForAll(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if n := (Counter{}).Count("hello world"); n.Tokens != 2 || !n.Exact {
				t.Errorf("got %+v", n)
			}
		})
	}
	wg.Wait()
	if first := load(); !Loaded() || first != load() {
		t.Error("there is more than one codec")
	}
}

// samples are fixed texts of the kinds that tools answer with.
func samples(bytes int) map[string]string {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the quick brown fox jumps over lazy dog while server answers request with error because file was not found in directory it is don't we'll configuration")
	out := map[string]string{}
	fill := func(name string, next func(i int) string) {
		var b strings.Builder
		for i := 0; b.Len() < bytes; i++ {
			b.WriteString(next(i))
		}
		out[name] = b.String()
	}
	fill("prose", func(i int) string {
		return words[r.IntN(len(words))] + map[bool]string{true: ".\n", false: " "}[i%17 == 0]
	})
	fill("records", func(i int) string {
		return `{"id":` + strconv.Itoa(r.IntN(1e9)) + `,"name":"` + words[r.IntN(len(words))] + `","path":"/srv/` + words[r.IntN(len(words))] + `.go","ok":true},`
	})
	fill("indented", func(int) string {
		return "  {\n    \"id\": " + strconv.Itoa(r.IntN(1e6)) + ",\n    \"tags\": [\n      \"" + words[r.IntN(len(words))] + "\"\n    ]\n  },\n"
	})
	fill("code", func(i int) string {
		return "func f" + strconv.Itoa(i) + "(x int) (int, error) {\n\tif x > " + strconv.Itoa(r.IntN(100)) + " {\n\t\treturn 0, fmt.Errorf(\"too large: %w\", err)\n\t}\n}\n"
	})
	fill("other scripts", func(int) string {
		return []string{"数据库连接失败，请重试。", "Ошибка соединения с сервером. ", "エラーが発生しました。", "größer als ", "😀 "}[r.IntN(5)]
	})
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	fill("base64", func(int) string { return string(base64[r.IntN(64)]) })
	return out
}

func TestCountsAreTheReference(t *testing.T) {
	reference := codec.NewO200kBase()
	for name, text := range samples(40 << 10) {
		want, err := reference.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Counter{}).Count(text); got.Tokens != want || !got.Exact {
			t.Errorf("%s: got %+v, want %d", name, got, want)
		}
	}
	for text, want := range map[string]int{"": 0, "hello world": 2, "tiktoken is great!": 6, "a": 1, "12345": 2, `{"a":1}`: 5} {
		n, _ := reference.Count(text)
		if got := (Counter{}).Count(text); got.Tokens != n || n != want {
			t.Errorf("%q: got %d, reference %d, want %d", text, got.Tokens, n, want)
		}
	}
}

func TestEstimatesOfLongTextsAreNear(t *testing.T) {
	reference := codec.NewO200kBase()
	all := samples(600 << 10)
	half := 300 << 10
	all["two halves"] = all["prose"][:half] + all["records"][:half]
	for name, text := range all {
		want, err := reference.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		got := (Counter{}).Count(text)
		if got.Exact || float64(got.Tokens) < 0.9*float64(want) || float64(got.Tokens) > 1.1*float64(want) {
			t.Errorf("%s: got %+v, the reference has %d", name, got, want)
		}
		if again := (Counter{}).Count(text); again != got {
			t.Errorf("%s: %+v, then %+v", name, got, again)
		}
	}
}

// TestWhiteSpaceDoesNotTakeForEver: the codec's pattern takes minutes for this.
func TestWhiteSpaceDoesNotTakeForEver(t *testing.T) {
	if got := (Counter{}).Count(strings.Repeat(" \n ", 80_000)); got.Exact || got.Tokens == 0 {
		t.Errorf("got %+v", got)
	}
	if got := (Counter{}).Count(strings.Repeat(" ", 300)); !got.Exact {
		t.Errorf("a short run is counted exactly, got %+v", got)
	}
	for _, unit := range []string{"\u3000\n", "\t\r\n", "\xff", "\xff\xfe", "a'", "'", "漢", "\u0301", "A", "9", "{\n"} {
		if got := (Counter{}).Count(strings.Repeat(unit, MaxExact/8/len(unit))); got.Tokens == 0 {
			t.Errorf("%q: got %+v", unit, got)
		}
	}
}

// TestPartingATextChangesNoCount compares with the codec given the whole text.
func TestPartingATextChangesNoCount(t *testing.T) {
	reference := codec.NewO200kBase()
	piece := rapid.SampledFrom([]string{"word", "Don't", "'S", "'", "x1y2", "1234567", "\"", "},{\"", ": ", "\n", "  ", "é", "漢", "_", "/", "A", "\\u00e9", "!\n", "ABC def"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), "")
		want, err := reference.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for i := 0; i < len(text); {
			j := i + 1
			for j < len(text) && !parts(text[j-1], text[j]) {
				j++
			}
			n, err := reference.Count(text[i:j])
			if err != nil {
				t.Fatal(err)
			}
			got, i = got+n, j
		}
		if got != want {
			t.Fatalf("%q in parts has %d tokens, whole %d", text, got, want)
		}
	})
}

func FuzzCount(f *testing.F) {
	for _, seed := range []string{"", "a b", "\xff\xfe", "\u3000\n\n", "'ll", `{"a":[1,2,{"b":null}]}`} {
		f.Add(seed, 3)
	}
	f.Add("\x7f", 1)
	f.Fuzz(func(t *testing.T, text string, times int) {
		if times > 0 && times < 1000 && len(text)*times < 1<<20 {
			text = strings.Repeat(text, times)
		}
		got := Counter{}.Count(text)
		if got.Tokens > len(text) || (got.Tokens == 0) != (text == "") {
			t.Fatalf("%d bytes have %d tokens", len(text), got.Tokens)
		}
		if got.Exact && len(text) > MaxExact {
			t.Fatal("an estimate is called exact")
		}
	})
}

func BenchmarkCount(b *testing.B) {
	text := samples(MaxExact)["records"][:MaxExact]
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Counter{}.Count(text)
	}
}

func BenchmarkEstimate(b *testing.B) {
	text, _ := json.Marshal(samples(8 << 20)["records"])
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Counter{}.Count(string(text))
	}
}
