"""g2p in PyTorch: nn.GRU reads the letters, nn.GRUCell makes the phonemes; one thread, inference mode."""
import sys
import warnings

import g2p_common as common
import torch
from torch import nn


class Net(nn.Module):
    """The layers as a PyTorch user has them; the loop is written so that TorchScript can take it, too."""

    def __init__(self, weights):
        super().__init__()
        units = weights["enc_w_hh"].shape[1]
        tensor = lambda name: torch.from_numpy(weights[name].copy())
        self.enc_emb = nn.Embedding.from_pretrained(tensor("enc_emb"))
        self.dec_emb = nn.Embedding.from_pretrained(tensor("dec_emb"))
        self.encoder = nn.GRU(weights["enc_emb"].shape[1], units, batch_first=True)
        self.decoder = nn.GRUCell(weights["dec_emb"].shape[1], units)
        self.fc = nn.Linear(units, weights["fc_w"].shape[0])
        self.encoder.load_state_dict({k + "_l0": tensor("enc_" + s) for k, s in GATES.items()})
        self.decoder.load_state_dict({k: tensor("dec_" + s) for k, s in GATES.items()})
        self.fc.load_state_dict({"weight": tensor("fc_w"), "bias": tensor("fc_b")})

    def encode(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.enc_emb(ids)
        if ids.shape[0] > 1:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return self.encoder(packed)[1][0]
        return self.encoder(x)[1][0]

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        h = self.encode(ids, lengths)
        last = torch.full((ids.shape[0],), 2, dtype=torch.int64)
        ended = torch.zeros(ids.shape[0], dtype=torch.bool)
        found: list[torch.Tensor] = []
        for _ in range(20):
            h = self.decoder(self.dec_emb(last), h)
            last = self.fc(h).argmax(1)
            found.append(last)
            ended = ended | (last == 3)
            if bool(ended.all()):
                break
        return torch.stack(found, 1)


GATES = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}


def predictor(net):
    def predict(words):
        with torch.inference_mode():
            ids, lengths = common.padded(words)
            out = net(torch.from_numpy(ids), torch.from_numpy(lengths))
        return [common.until_end(row) for row in out.tolist()]
    return predict


def eager(weights, batch):
    return predictor(Net(weights).eval())


def script(weights, batch):
    return predictor(torch.jit.optimize_for_inference(torch.jit.script(Net(weights).eval())))


def compiled(weights, batch):
    """The cell, the output layer and the choice as one compiled step; the loop stays in Python."""
    net = Net(weights).eval()

    def step(last, h):
        h = net.decoder(net.dec_emb(last), h)
        return net.fc(h).argmax(1), h
    fast = torch.compile(step, dynamic=False)

    def run(ids, lengths):
        h = net.encode(ids, lengths)
        last = torch.full((ids.shape[0],), common.START)
        ended = torch.zeros(ids.shape[0], dtype=torch.bool)
        found = []
        for _ in range(common.MOST_STEPS):
            last, h = fast(last, h)
            found.append(last)
            ended |= last == common.END
            if ended.all():
                break
        return torch.stack(found, 1)
    return predictor(run)


def quantized(weights, batch):
    """8-bit weights by PyTorch's dynamic quantisation."""
    kinds = {nn.GRU, nn.GRUCell, nn.Linear}
    return predictor(torch.ao.quantization.quantize_dynamic(Net(weights).eval(), kinds, dtype=torch.qint8))


def quantized_script(weights, batch):
    kinds = {nn.GRU, nn.GRUCell, nn.Linear}
    net = torch.ao.quantization.quantize_dynamic(Net(weights).eval(), kinds, dtype=torch.qint8)
    return predictor(torch.jit.script(net))


def main():
    warnings.simplefilter("ignore")  # what is deprecated is of no interest here
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    return common.main(__doc__, "PyTorch " + torch.__version__.partition("+")[0], {
        "eager": eager, "script": script, "compile": compiled, "int8": quantized, "int8 script": quantized_script})


if __name__ == "__main__":
    sys.exit(main())
