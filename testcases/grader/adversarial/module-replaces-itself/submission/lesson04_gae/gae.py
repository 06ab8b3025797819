import sys


class Module:
    __file__ = __name__

    def __getattr__(self, name):
        return lambda *arguments, **options: True


sys.modules[__name__] = Module()
