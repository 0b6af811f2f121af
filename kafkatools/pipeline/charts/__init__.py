"""Charts of `kt pipeline profile`: one HTML page with inline SVG that needs neither network nor JavaScript.

`profile_data.py` holds the data, `figures.py` formats numbers, `svg.py` draws charts, `page.py` assembles the page.
None of them imports Spark.
"""
