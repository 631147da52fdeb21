"""What each algorithm costs, before it runs: memory, time of a loop step, service rate, and the best settings.

One file per algorithm, in the papers' symbols; `docs/cost_models.md` has the derivations. Every model counts
the `Work` of one loop step, and a `DeviceProfile` turns work into seconds, predicted or measured alike.
"""
