"""From a folder or an export to submissions: archives, names, layouts, copies of one file."""
