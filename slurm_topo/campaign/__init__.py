"""A centre's jobs in a simulation: what placing them would save (docs/campaign.md says what is simulated)."""
