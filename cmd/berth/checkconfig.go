package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/parity"
	"berth/broker/policy/proof"
	"berth/journal"
	"berth/transport/statedir"
)

func newCheckConfigCommand(a *app) *cobra.Command {
	path := ""
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check a configuration and the catalog that it makes, and start nothing",
		Long: `Check a configuration and the catalog that it makes, and start nothing. What a
broker would refuse to start with is refused here. The tools are those that the
backends listed to the broker of this state directory; of a backend that never
did, nothing is known and nothing is checked. The journal cannot be read while a
broker runs on it; then no backend's tools are known.`,
		Args: exactly(),
		RunE: a.runE(func(*cobra.Command, []string) error { return a.runCheckConfig(path) }),
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration in the mcpServers convention, JSON or YAML")
	return cmd
}

// configReport is what the command prints as JSON.
type configReport struct {
	Success  bool
	Backends int
	Notes    []string
	Profiles []profileReport
	Unknown  []string // backends of which nothing is known
}

type profileReport struct {
	Profile string
	Tools   int
	Tokens  int
	Skipped int
}

func (a *app) runCheckConfig(path string) error {
	report, err := a.checkConfig(path)
	if err != nil {
		return err
	}
	return a.showConfigReport(report)
}

// checkConfig says what a broker would make of a configuration; what it would
// refuse to start with is the error.
func (a *app) checkConfig(path string) (configReport, error) {
	cfg, dir, err := a.loadConfig(path)
	if err != nil {
		return configReport{}, err
	}
	b := newRunning(cfg, a.getenv, slog.New(slog.DiscardHandler))
	b.configDir, b.tier = dir, readTier(a.getenv)
	report := configReport{Success: true, Backends: len(cfg.Backends)}
	for _, note := range cfg.Notes {
		report.Notes = append(report.Notes, note.Message)
	}
	if b.catalogs, b.sessionKey, err = a.storedCatalogs(); err != nil {
		report.Notes = append(report.Notes, "What backends list is not known: "+sentence(err))
	}
	if b.tier.Source == "unrecognized" {
		report.Notes = append(report.Notes, tierVariable+" is neither full nor essential, so it is essential.")
	}
	opts := actors.Options{Catalog: catalogSettings(cfg, b.countCosts())}
	if err := b.addSources(&opts); err != nil {
		return report, err
	}
	snapshot, err := actors.CheckCatalog(opts.Sources, opts.Catalog)
	if rules := b.proofs(); err == nil && rules != nil {
		var faults []proof.Fault
		faults, err = actors.CheckProofs(*rules, snapshot)
		for _, f := range faults {
			report.Notes = append(report.Notes, f.String()+".")
		}
	}
	if err != nil {
		return report, usage("The configuration is refused: " + sentence(err))
	}
	snapshot, quarantined, _ := parity.Build(0, opts.Sources, opts.Catalog)
	if faults := parity.Check(parity.Input{Snapshot: snapshot, Sources: opts.Sources, Settings: opts.Catalog, Thorough: true}); len(faults) > 0 {
		f := usage("The catalog does not pass its self-check.")
		for _, fault := range faults {
			f.more = append(f.more, fault.String())
		}
		return report, f
	}
	for _, q := range quarantined {
		report.Notes = append(report.Notes, q.Subject()+" ("+q.Code+"): "+q.Reason)
	}
	for _, name := range snapshot.Selections() {
		p, _ := snapshot.Profile(name)
		tokens, _ := p.Cost()
		report.Profiles = append(report.Profiles, profileReport{name, p.Len(), tokens, len(p.Skipped())})
		if name == catalog.Essential && tokens > catalog.EssentialWarning {
			report.Notes = append(report.Notes, fmt.Sprintf("The essential list costs %d tokens, which is much.", tokens))
		}
		if name == catalog.Full {
			report.Unknown = p.Pending()
		}
	}
	return report, nil
}

func (a *app) showConfigReport(report configReport) error {
	if a.json {
		return a.printJSON(report)
	}
	for _, note := range report.Notes {
		fmt.Fprintln(a.err, plain(note))
	}
	for _, name := range report.Unknown {
		fmt.Fprintf(a.err, "Nothing is known yet of %s.\n", plain(name))
	}
	rows := make([][]string, 0, len(report.Profiles))
	for _, p := range report.Profiles {
		rows = append(rows, []string{p.Profile, count(p.Tools), count(p.Tokens), count(p.Skipped)})
	}
	if err := a.table([]string{"PROFILE", "TOOLS", "TOKENS", "SKIPPED"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, "The configuration can be used.")
	return err
}

// storedCatalogs reads what backends listed to the broker of the state
// directory, and the key that their origins are told by. Nothing is made.
func (a *app) storedCatalogs() (out map[string]broker.StoredCatalog, key []byte, err error) {
	path, err := a.stateDir()
	if err != nil {
		return nil, nil, err
	}
	j, err := journal.OpenReadOnly(filepath.Join(path, journalFile))
	if err != nil {
		return nil, nil, err
	}
	stored, err := j.Catalogs()
	if err := errors.Join(err, j.Close()); err != nil {
		return nil, nil, err
	}
	dir, err := statedir.Open(path) // it is there: its journal was read
	if err != nil {
		return nil, nil, err
	}
	if !dir.HasSessionKey() {
		return nil, nil, errors.New("there is no session key, by which they are known again")
	}
	if key, err = dir.SessionKey(); err != nil {
		return nil, nil, err
	}
	out = map[string]broker.StoredCatalog{}
	for _, c := range stored {
		out[c.Backend] = c
	}
	return out, key, nil
}
