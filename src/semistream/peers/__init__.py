"""Ours beside other ways to join a stream with a table on disk: `make bench-peers`.

One module per peer behind `contract.Peer`, each set up as its own documentation recommends for this job. `bench` runs
them in processes of their own and writes `results`; `verdict` says where we are not first, `picture` draws.
"""
