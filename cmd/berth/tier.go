package main

import (
	"log/slog"
	"strings"

	"berth/broker/catalog"
	"berth/broker/catalog/schema"
	"berth/broker/config"
	"berth/broker/shape"
)

// tierVariable names the profile of an endpoint that names none.
const tierVariable = "BERTH_TOOL_TIER"

// tier is what BERTH_TOOL_TIER says, read once at a start.
type tier struct {
	Name   string // catalog.Full or catalog.Essential
	Source string // default, environment, or unrecognized
}

// readTier takes full for full and anything else for essential: a typo must
// not widen a list.
func readTier(getenv func(string) (string, bool)) tier {
	value, _ := getenv(tierVariable)
	switch word := strings.ToLower(strings.TrimSpace(value)); word {
	case "":
		return tier{catalog.Essential, "default"}
	case catalog.Full, catalog.Essential:
		return tier{word, "environment"}
	}
	return tier{catalog.Essential, "unrecognized"}
}

// say tells once which list a client gets that names no profile, and that the
// variable was not understood.
func (t tier) say(log *slog.Logger) {
	if t.Source == "unrecognized" {
		log.Warn("the tier is not one that is known, so it is essential", slog.String("variable", tierVariable))
	}
	log.Info("an endpoint without a profile serves a tier; every profile has a path of its own", slog.String("tier", t.Name), slog.String("source", t.Source))
}

// weigh warns of an essential list that costs more than its clients expect. A
// token has at least a byte, so a short one is not counted.
func weigh(snapshot *catalog.Snapshot, log *slog.Logger) {
	p, ok := snapshot.Profile(catalog.Essential)
	if !ok {
		return
	}
	bytes := 0
	for _, e := range p.Entries() {
		bytes += len(e.Verb.Listed)
	}
	if bytes <= catalog.EssentialWarning {
		return
	}
	if tokens, ok := p.Cost(); ok && tokens > catalog.EssentialWarning {
		log.Warn("the essential list costs much; nothing of it is cut", slog.Int("tokens", tokens), slog.Int("verbs", p.Len()))
	}
}

// catalogSettings is what the configuration says of the whole catalog.
func catalogSettings(cfg *config.Config, costs *shape.Costs) catalog.Settings {
	settings := catalog.Settings{Prefixes: cfg.Broker.HarnessPrefixes, HeldVerbs: cfg.Broker.Hold.Verbs, Costs: costs, Schemas: &schema.Cache{}}
	for _, p := range cfg.Broker.Profiles {
		settings.Profiles = append(settings.Profiles, p.Spec())
	}
	return settings
}
