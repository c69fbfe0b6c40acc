"""A GAN of convolutions, in the manner of DCGAN: two optimizers, weights set by class name."""

import random

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.parallel
import torch.optim as optim
import torch.utils.data
import torchvision.utils as vutils

random.seed(1)
torch.manual_seed(1)
cudnn.benchmark = True
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
nz, ngf, ndf, nc = 8, 8, 8, 3


def wave(*shape):
    count = 1
    for n in shape:
        count *= n
    return torch.sin(torch.arange(count).float() * 0.7).view(*shape)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        m.weight.data.copy_(wave(*m.weight.shape) * 0.1)
    elif classname.find("BatchNorm") != -1:
        nn.init.ones_(m.weight)
        torch.nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True), nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf), nn.ReLU(True), nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )  # fmt: skip

    def forward(self, input):
        if input.is_cuda and torch.cuda.device_count() > 1:
            return nn.parallel.data_parallel(self.main, input, range(2))
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


netG, netD = Generator().to(device), Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
print(netG)
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))
images = torch.utils.data.TensorDataset(wave(24, nc, 16, 16))
dataloader = torch.utils.data.DataLoader(images, batch_size=8)
for epoch in range(2):
    for i, data in enumerate(dataloader, 0):
        netD.zero_grad()
        real = data[0].to(device)
        label = torch.full((real.size(0),), 1, dtype=real.dtype, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        noise = wave(real.size(0), nz, 1, 1).to(device) * (i + 1)
        fake = netG(noise)
        label.fill_(0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        print("[%d][%d] D %.4f G %.4f" % (epoch, i, (errD_real + errD_fake).item(), errG.item()))
grid = vutils.make_grid(fake.detach().cpu(), nrow=4, normalize=True)
print(tuple(grid.shape), "%.4f" % grid.mean().item())
