"""A callback for tests: does something when a number of passes are done."""

from __future__ import annotations


class AfterPasses:
    """Calls `action` when the pass of this number ends."""

    def __init__(self, passes, action):
        self.left, self.action = passes, action

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.left -= 1
        if self.left == 0:
            self.action()
        return False
