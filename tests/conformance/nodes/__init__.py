"""Whole clusters on this machine: one node each, with kubelet, containerd, kube-proxy and CoreDNS.

Needs root.  Nothing is downloaded but Go modules and Debian packages.
"""
