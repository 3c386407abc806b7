"""The analytical model of the dissertation (4.3.6): fitted to runs, drawn, extrapolated."""
