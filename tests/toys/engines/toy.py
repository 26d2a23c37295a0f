"""One node after the other, in this thread."""

from threadpoolctl import threadpool_limits


class Engine:
    def __init__(self, nodes):
        self.nodes = list(nodes)

    @property
    def n_nodes(self):
        return len(self.nodes)

    def ask(self, node_function, *broadcast):
        answers = []
        with threadpool_limits(1, user_api="blas"):
            for node in self.nodes:
                try:
                    answers.append(node_function(node, *broadcast))
                except Exception as error:
                    error.add_note(f"at node {node.name!r} of the toy engine")
                    raise
        self.nodes = [node for node, _ in answers]
        total, *rest = (reply for _, reply in answers)
        for reply in rest:
            total = total + reply
        return total

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
