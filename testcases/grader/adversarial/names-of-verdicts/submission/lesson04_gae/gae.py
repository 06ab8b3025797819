def td_errors(rewards, values, dones, gamma=0.99):
    raise type("ForgedAnswer", (Exception,), {})("\x1b[2J::error::")
