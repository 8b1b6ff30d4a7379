package catalog

// Fingerprint names the list in six characters.
func (p *Profile) Fingerprint() string { return p.Digest()[:6] }
