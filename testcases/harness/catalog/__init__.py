"""What the course consists of: lessons and regions, the handles that tests call, points, sections of the texts."""
