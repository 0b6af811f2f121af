# placeholder, compiled in pure-Python mode
