"""The papers' figures, from declarations to a page.

    experiments/<paper>/figNN.py --catalog--> Figure --kind--> tasks --runner--> results --kind--> rows
        rows --> CSV;  rows --plot--> SVG, PNG;  rows + expected.toml --claims, verdicts--> Judged;  all --page--> index.html

- What a run is made of: `scenario` (the data), `variant` (the algorithm), `lengths` (how long), `tasks` (one run).
- What a figure is: `figure`, and the `kinds` of measurement it can be of.
- What limits anyone: `bound` (the clairvoyant), `paper_bounds` (the papers' own cost models).
"""
