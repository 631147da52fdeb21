"""Generators of the data that tests, experiments and benchmarks run on.

Everything here is a pure function of its configuration: the same config gives the same rows on
every machine, in any order of batches, so that a measurement can be repeated from its config alone.
`zipf` draws keys, `tables` makes master tables and streams of them.
"""
