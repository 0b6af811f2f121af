"""Charts as text: inline SVG in one HTML page that needs no network and no script.

`profile_data.py` holds the figures, `figures.py` words numbers, `svg.py` draws, `page.py` puts the page together. None
of them knows Spark.
"""
