"""What can be measured at the points of a figure. A kind is a class with `tasks` and `rows`, see `figure.Kind`."""
